#!/usr/bin/env bash
# check_headers.sh ROOT BUILD CXX: every header compiles alone. The build has shown it of a header that is the first line of
# code of a source whose object is newer than both; the others are compiled here, two at a time, with the libraries'
# include folders of the build's compile_commands.json.
set -euo pipefail
root=$(cd "$1" && pwd)
build=$2 cxx=$3
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mapfile -t flags < <(grep -ohE -- '-(isystem |I)[^ "]+' "$build/compile_commands.json" | sort -u | tr ' ' '\n')
headers=$(list_files | grep -E '^(bench|models|comm|power|results|tests)/.*\.hpp$' | grep -v '^tests/house/')
[ -n "$headers" ] || finish "no headers found under $root: the list is wrong"
cd "$root"
# The private headers of the cuda device and the harness of its kernels need the toolkit; its public one compiles everywhere.
if ! echo '#include <cuda_runtime_api.h>' | "$cxx" "${flags[@]}" -fsyntax-only -x c++ - 2>/dev/null; then
  headers=$(printf '%s\n' "$headers" | grep -vE '^models/compute/cuda/' | cat - <(echo models/compute/cuda/cuda_device.hpp) |
    grep -v '^tests/support/simt/simt\.hpp$')
  echo "no CUDA toolkit in this build: its private headers are left out"
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
headers=$(printf '%s\n' "$headers" | grep -vxFf <(shown_by_the_build)) || true

export CHECK_CXX=$cxx
# shellcheck disable=SC2016  # the inner shell expands
printf '%s' "$headers" | xargs -r -P 2 -n 1 bash -c '
  header=$(printf "%s\n" "${@: -1}")
  printf "#include \"%s\"\n" "$header" |
    "$CHECK_CXX" -std=c++20 -fopenmp -fsyntax-only -Wall -Wextra "${@:1:$#-1}" -x c++ - 2>&1 || exit 1' check \
  -I"$root" -I"$root/tests/support" "${flags[@]}" >"$build/headers.log" || finish "these headers do not compile alone:
$(cat "$build/headers.log")"
printf '%s headers compile alone: %s first in a source of the build, %s here\n' "$every" \
  "$((every - $(printf '%s' "$headers" | grep -c .)))" "$(printf '%s' "$headers" | grep -c .)"
