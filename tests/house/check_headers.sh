#!/usr/bin/env bash
# check_headers.sh ROOT BUILD CXX [cuda]: every header compiles alone. The build has shown it of a header that is the first
# line of code of a source whose object is newer than both; the others are compiled here, two at a time, with the libraries'
# include folders of the build's compile_commands.json. With `cuda` only the headers that CUDA's presence may change are
# checked, each of them compiled here (without_cuda.sh).
set -euo pipefail
root=$(cd "$1" && pwd)
build=$2 cxx=$3
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mapfile -t flags < <(grep -ohE -- '-(isystem |I)[^ "]+' "$build/compile_commands.json" | sort -u | tr ' ' '\n')
headers=$(list_files | grep -E '^(bench|models|comm|power|results|tests)/.*\.hpp$' | grep -v '^tests/house/')
[ -n "$headers" ] || finish "no headers found under $root: the list is wrong"
cd "$root"
# Headers that include one of CUDA's, themselves or by way of others of the tree.
# shellcheck disable=SC2016  # awk's
need_cuda=$(list_files | grep -E '\.(hpp|cuh)$' | xargs -r awk '
  /^[ \t]*#[ \t]*include[ \t]*<(cuda|cublas|cudnn)/ { needs[FILENAME] = 1 }
  /^[ \t]*#[ \t]*include[ \t]*"/ { split($0, part, "\""); from[++edges] = FILENAME; to[edges] = part[2] }
  END {
    do {
      found = 0
      for (i = 1; i <= edges; ++i) if ((to[i] in needs) && !(from[i] in needs)) { needs[from[i]] = 1; found = 1 }
    } while (found)
    for (file in needs) print file
  }')
in_cuda='^(models/compute/cuda|tests/compute_cuda|tests/support/(simt|cublaslt|cudnn))/'  # as check_includes.sh has it
if [ "${4:-}" = cuda ]; then
  headers=$(printf '%s\n' "$headers" | grep -E "$in_cuda|^($(tr '\n' '|' <<<"$need_cuda"))\$") ||
    finish "no headers of the cuda device found under $root: the list is wrong"
fi
if ! echo '#include <cuda_runtime_api.h>' | "$cxx" "${flags[@]}" -fsyntax-only -x c++ - 2>/dev/null; then
  all=$headers
  headers=$(printf '%s\n' "$all" | grep -vxFf <(printf '%s\n' "$need_cuda" | grep -E "$in_cuda")) || true
  echo "no CUDA toolkit in this build: $(($(wc -l <<<"$all") - $(grep -c . <<<"$headers"))) headers that need it are left out"
fi
# shown_by_the_build: headers that a source of the build includes before anything else, where its object is up to date.
shown_by_the_build() {
  sed -nE 's|^ *"directory": "(.*)",$|directory \1|p; s|^ *"command": .* -o ([^ ]+\.o) -c ([^ ]+\.cpp)",$|\1 \2|p' \
    "$build/compile_commands.json" |
    while read -r object source; do
      if [ "$object" = directory ]; then cd "$source"; continue; fi
      [ "$object" -nt "$source" ] || continue
      header=$(awk '/^[ \t]*(\/\/.*)?$/ { next } { if (/^#include "/) { split($0, part, "\""); print part[2] } exit }' "$source")
      if [ -n "$header" ] && [ "$object" -nt "$root/$header" ]; then printf '%s\n' "$header"; fi
    done | sort -u
}
every=$(printf '%s\n' "$headers" | wc -l)
[ "${4:-}" = cuda ] || headers=$(printf '%s\n' "$headers" | grep -vxFf <(shown_by_the_build)) || true

export CHECK_CXX=$cxx
log=$build/headers${4:+_$4}.log
# shellcheck disable=SC2016  # the inner shell expands
printf '%s' "$headers" | xargs -r -P 2 -n 1 bash -c '
  header=$(printf "%s\n" "${@: -1}")
  printf "#include \"%s\"\n" "$header" |
    "$CHECK_CXX" -std=c++20 -fopenmp -fsyntax-only -Wall -Wextra "${@:1:$#-1}" -x c++ - 2>&1 || exit 1' check \
  -I"$root" -I"$root/tests/support" "${flags[@]}" >"$log" || finish "these headers do not compile alone:
$(cat "$log")"
printf '%s headers compile alone: %s first in a source of the build, %s here\n' "$every" \
  "$((every - $(printf '%s' "$headers" | grep -c .)))" "$(printf '%s' "$headers" | grep -c .)"
