#!/usr/bin/env bash
# Lists the ids of errors (`.id = "room.what"`, or the first argument of a fail_…() helper) that no
# test under src or tests mentions. Exit status 1 when there is one. Invariants are left out: they
# are faults of Strata, which no input can provoke.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

id='"[a-z0-9_]+\.[a-z0-9_]+"'
raised="$(find src/strata -name '*.cc' -o -name '*.h' | grep -vE '_test\.(cc|h)$|/test_' | sort |
  xargs cat | tr '\n' ' ' |
  grep -oE "(\.id *= *|fail_[a-z_]+\( *)$id" | grep -oE "$id" | sort -u)"
tested="$(find src tests -name '*_test.cc' -o -name '*_for_test.*' | sort | xargs cat | grep -oE "$id" | sort -u)"
untested="$(comm -23 <(echo "$raised") <(echo "$tested"))"

echo "error ids: $(wc -l <<<"$raised") raised, $(grep -c . <<<"$untested" || true) without a test"
[ -n "$untested" ] || exit 0
echo "$untested"
exit 1
