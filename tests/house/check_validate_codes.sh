#!/usr/bin/env bash
# check_validate_codes.sh ROOT: every code of a fault or a note of `validate` is in a row of results/README.md.
set -euo pipefail
cd "$1"
status=0
makes_faults=$(grep -rlE 'Findings&|Fault\b|violations' results bench --include='*.cpp')
# shellcheck disable=SC2086  # words; code may have its first argument on the next line
codes=$(cat $makes_faults | tr -s ' \n' ' ' |
  grep -oE '(found\.broken|found\.note|broken)\( ?([a-z_]+, )?"[a-z]+(_[a-z]+)*",|((violations|warnings|faults|notes)\.push_back\(|\bFault|return \{|violations =) ?\{+ ?"[a-z]+(_[a-z]+)*", ?("|[a-z_]+[,.(]|[a-z]+ \+)' |
  grep -oE '"[a-z]+(_[a-z]+)*"' | tr -d '"' | sort -u)
[ "$(wc -l <<<"$codes")" -ge 60 ] || {
  echo "check_validate_codes.sh: finds only these codes, and cannot tell: $codes"
  exit 1
}
for code in $codes; do
  grep -E '^\| `' results/README.md | cut -d '|' -f 2 | grep -qF "\`$code\`" || {
    echo "results/README.md: no row for the code $code"
    status=1
  }
done
exit $status
