#!/usr/bin/env bash
# without_cuda.sh ROOT BUILD CXX: the house checks that CUDA's headers change answer as on a machine without them, on a
# machine that has them: check_headers.sh of the headers concerned, and the tests of the checks.
set -euo pipefail
root=$(cd "$1" && pwd)
build=$2 cxx=$3
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
absent=$(mktemp -d)
trap 'rm -rf "$absent"' EXIT

# Compilers read these before the headers of any -isystem folder, and of their own.
list_files | grep -E '\.(cpp|hpp|cu|cuh)$' | (cd "$root" && xargs -r grep -ohE '^[ \t]*#[ \t]*include[ \t]*<(cuda|cublas|cudnn)[^>]*>') |
  sed 's/.*<\(.*\)>/\1/' | sort -u | while IFS= read -r header; do
  mkdir -p "$absent/$(dirname "$header")"
  echo "#error \"$header: hidden by tests/house/without_cuda.sh\"" >"$absent/$header"
done
[ -f "$absent/cuda_runtime_api.h" ] || finish "no source includes cuda_runtime_api.h: the pattern is wrong"
export CPATH=$absent
for check in "check_headers.sh $root $build $cxx cuda" "scripts/check_house.sh $root"; do
  # shellcheck disable=SC2086  # words
  "$root/tests/house/"$check >"$absent/output" 2>&1 || finish "$check, with CUDA's headers hidden:
$(cat "$absent/output")"
  cat "$absent/output"
  case $check in check_headers*)
    grep -q 'no CUDA toolkit in this build' "$absent/output" || finish "CUDA's headers are not hidden from $cxx" ;;
  esac
done
