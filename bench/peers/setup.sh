#!/bin/sh
# Installs the peers that Strata is compared with, each in a virtual environment of its own below
# .deps/peers: jax (JAX, Flax, Optax) and torch (PyTorch, transformers, TRL). Nothing but the scripts of
# this folder uses them. A second run finds them in place and installs nothing.
#
#   PYTHON=/path/to/python3.12 bench/peers/setup.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=$(cd "$here/../.." && pwd)/.deps/peers

find_python() {
  for candidate in ${PYTHON:-} python3.12 python3.13 \
    "$HOME"/.pyenv/versions/3.1[23].*/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))' \
      2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "setup.sh: the peers need Python 3.12 or 3.13; name one: PYTHON=/path/to/python $0" >&2
  exit 1
}

# install NAME DOWNLOAD_SIZE: the environment NAME from requirements-NAME.txt.
install() {
  dir=$peers/$1
  list=$here/requirements-$1.txt
  stamp=$(cat "$list" "$here/without_cuda.sh" | sha256sum)
  if [ "$(cat "$dir/installed" 2>/dev/null)" = "$stamp" ]; then
    echo "$1: already in place, $dir"
    return
  fi
  echo "$1: installing $(grep -c == "$list") packages ($2 to download) into $dir"
  grep -E '^(jax|jaxlib|flax|optax|torch|transformers|trl|tokenizers)==' "$list" | sed 's/^/  /'
  rm -rf "$dir"
  "$python" -m venv "$dir"
  "$dir/bin/pip" install --quiet --no-deps --disable-pip-version-check -r "$list"
  if [ "$1" = torch ]; then
    sh "$here/without_cuda.sh" "$dir"/lib/python3.*/site-packages/torch/lib
  fi
  "$dir/bin/python" -c "import $1; print('  $1', $1.__version__, 'imports')"
  echo "$stamp" >"$dir/installed"
}

python=$(find_python)
mkdir -p "$peers"
install jax "0.17 GB"
install torch "0.64 GB"
du -shc "$peers/jax" "$peers/torch" | sed "s/^/on disk: /"
