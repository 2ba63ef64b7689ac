#!/usr/bin/env bash
# take_cuobjdump.sh BUILD: puts NVIDIA's cuobjdump from PyPI into BUILD/cuobjdump, where cuda_resources_test looks if the CUDA toolkit has
# none. Exit 77 with "skip: REASON" where it cannot be downloaded.
set -euo pipefail
mkdir -p "$1"
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/house/pypi.sh
. "$here/pypi.sh"

folder=$build/cuobjdump
if ! cmp -s "$here/cuobjdump.txt" "$folder/complete"; then
  rm -rf "$folder"
  from_pypi cuobjdump "$here/cuobjdump.txt" "$build/cuobjdump-wheels"
  mkdir "$folder"
  cp "$build"/cuobjdump-wheels/unpacked/nvidia/cu*/bin/cuobjdump "$folder"
  chmod +x "$folder/cuobjdump"
  "$folder/cuobjdump" --version >/dev/null
  rm -r "$build/cuobjdump-wheels"
  cp "$here/cuobjdump.txt" "$folder/complete"
fi
echo "$folder/cuobjdump"
