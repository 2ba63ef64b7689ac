#!/usr/bin/env bash
# check_faults.sh ROOT: each row of the fault table in power/README.md has tests in tests/faults.txt, and these exist.
set -euo pipefail
root=$(cd "$1" && pwd)
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
problems=''
problem() { problems+="$1"$'\n'; }

rows=$(awk '/^\| fault \|/ { inside = 1; getline; next } !/^\|/ { inside = 0 }
            inside { sub(/^\| /, ""); sub(/ \|.*/, ""); print }' power/README.md)
[ -n "$rows" ] || problem "power/README.md: has no fault table (| fault | …)"
listed=$(sed '/^#/d; s/ | .*//' tests/faults.txt)
while IFS= read -r row; do
  grep -qxF -- "$row" <<<"$listed" || problem "power/README.md: the fault \"$row\" has no test in tests/faults.txt"
done <<<"$rows"
while IFS='|' read -r row tests; do
  case $row in '#'*) continue ;; esac
  grep -qxF -- "${row% }" <<<"$rows" || problem "tests/faults.txt: power/README.md has no fault \"${row% }\""
  [ -n "${tests// /}" ] || problem "tests/faults.txt: \"${row% }\" names no test"
  for name in $tests; do
    suite=${name%%.*} rest=${name#*.}
    if [ -f "tests/e2e/$suite.py" ]; then
      { grep -qE "^class ${rest%%.*}\(" "tests/e2e/$suite.py" && grep -qE "^    def ${rest#*.}\(" "tests/e2e/$suite.py"; } ||
        problem "tests/faults.txt: tests/e2e/$suite.py has no ${rest}"
    else
      grep -rqE "^TEST(_F)?\($suite, $rest\)" tests --include='*.cpp' || problem "tests/faults.txt: there is no test $name"
    fi
  done
done <tests/faults.txt
finish "${problems%$'\n'}"
