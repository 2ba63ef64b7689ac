#!/usr/bin/env bash
# check_tree.sh ROOT: the top level is the fixed one, long files have a reason, lines of C++ sources are short, nothing
# names the machine it was written on or a registry, packages are named in one place.
set -euo pipefail
root=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/house/lib.sh
. "$here/lib.sh"
files=$(list_files)
problems=''
problem() { problems+="$1"$'\n'; }

# ---- the fixed top level ----
while IFS= read -r name; do
  grep -qxF "$name" "$here/top_level.txt" || problem "$name: not in tests/house/top_level.txt, the fixed top level"
done < <(printf '%s\n' "$files" | cut -d/ -f1 | sort -u)

# ---- length: 500 lines, or a reason in long_files.txt ----
cd "$root"
long=$(printf '%s\n' "$files" | grep -E '\.(cpp|hpp|cu|cuh|sh|cmake|awk|py)$' | xargs -r wc -l |
  awk '$2 != "total" && $1 > 500 { print $2 }')
for file in $long; do
  grep -q "^$file " "$here/long_files.txt" || problem "$file: over 500 lines without a reason in tests/house/long_files.txt"
done
while read -r file _; do
  case $file in '' | '#'*) continue ;; esac
  grep -qxF "$file" <<<"$long" || problem "tests/house/long_files.txt: $file is not over 500 lines (any more)"
done <"$here/long_files.txt"

# ---- lines of C++ and CUDA sources: 120 columns, as .clang-format says; tests may have data in longer ones ----
while IFS= read -r line; do
  problem "$line: longer than 120 columns"
done < <(printf '%s\n' "$files" | grep -vE '^tests/' | grep -E '\.(cpp|hpp|cu|cuh)$' |
  LC_ALL=C.UTF-8 xargs -r grep -nE '^.{121,}' | cut -d: -f1,2)

# ---- rooms stay small: 30 sources a folder, none at the top of results/ ----
while read -r count folder; do
  [ "$count" -le 30 ] || problem "$folder: has $count sources; a folder has 30 at most, so divide it by what they are for"
done < <(printf '%s\n' "$files" | grep -E '/.*\.(cpp|hpp|cu|cuh|py|sh)$' | sed 's|/[^/]*$||' | sort | uniq -c)
while IFS= read -r file; do
  problem "$file: is at the top of results/: move it to a folder (CONTRIBUTING.md, rooms)"
done < <(printf '%s\n' "$files" | grep -E '^results/[^/]*\.(cpp|hpp|def|in)$')

# ---- a test that no CMakeLists.txt names, nor collects by a GLOB of its room, would silently not be built ----
lists=$(printf '%s\n' "$files" | { grep -E '^tests/.*CMakeLists\.txt$' || true; } | xargs -r cat)
while IFS= read -r file; do
  room=$(cut -d/ -f1,2 <<<"$file")/CMakeLists.txt
  if grep -qE "[ /(]$(basename "$file" .cpp)([ .)]|\$)" <<<"$lists"; then continue; fi
  excluded=$(sed -nE '/^list\(FILTER tests EXCLUDE/{s/.*"(.*)".*/\1/; s/\\\\/\\/g; p}' "$room" 2>/dev/null) || excluded=''
  if ! grep -qsE 'GLOB tests .*\*_test\.cpp' "$room" || { [ -n "$excluded" ] && grep -qE "$excluded" <<<"$file"; }; then
    problem "$file: no CMakeLists.txt collects this test"
  fi
done < <(printf '%s\n' "$files" | grep -E '^tests/.*_test\.cpp$')

# ---- nothing of the writer's machine, no registry's host, no leftovers (patterns are split: this file is checked too) ----
forbidden="/wo""rk/|/fa""rm/|deb\.deb""ian\.org|py""pi\.org|files\.python""hosted"
while IFS= read -r line; do
  problem "$line: a path or host of some machine"
done < <(printf '%s\n' "$files" | grep -v '^LICENSE$' | xargs -r grep -nIE "(^|[^A-Za-z0-9_}.])($forbidden)" | cut -c1-160)
leftovers="TO""DO|FIX""ME|HA""CK:"
while IFS= read -r line; do
  problem "$line: a leftover; write it into the issue tracker"
done < <(printf '%s\n' "$files" | grep -E '\.(cpp|hpp|cu|cuh|sh|cmake|awk|py)$' | xargs -r grep -nIE "$leftovers" | cut -c1-160)

# ---- kernels are launched by launch(), which the tests on the CPU understand too ----
while IFS= read -r line; do
  problem "$line: launched without launch() of models/compute/cuda/kernels/launch.hpp"
done < <(printf '%s\n' "$files" | grep -E '\.(cpp|hpp|cu|cuh)$' | xargs -r grep -nIE '<<<.*>>> *\(' | cut -c1-160)

# ---- Debian packages are named once ----
for package in $(sed -n '/_packages=(/,/)/p' scripts/lib/packages.sh | sed 's/.*_packages=(//' | tr -d ')' |
  tr -s ' :' '\n' | grep -E -- '-dev$'); do
  while IFS= read -r file; do
    problem "$file: names the package $package; scripts/lib/packages.sh does"
  done < <(printf '%s\n' "$files" | grep -E '^(scripts|\.ci|cmake)/' |
    grep -vE "^(scripts/lib/packages.sh|cmake/TrainwattInstall.cmake|scripts/packaging/README.md)$" | xargs -r grep -lF -- "$package")
done
while IFS= read -r file; do
  problem "$file: calls apt; scripts/lib/packages.sh does"
done < <(printf '%s\n' "$files" | grep -E '^(scripts|\.ci)/' | grep -vE '^scripts/lib/packages.sh$|\.md$' |
  xargs -r grep -lE 'apt(-get)? (install|update)')
finish "${problems%$'\n'}"
