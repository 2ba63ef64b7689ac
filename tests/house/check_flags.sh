#!/usr/bin/env bash
# check_flags.sh ROOT: every flag that a program sets has a note (results/analysis/flag_notes.cpp) and a row in the table
# of results/README.md; every code of a fault or a note of `validate` is in a row there.
set -euo pipefail
cd "$1"
set_flags=$(
  {
    grep -ohE 'flag\("[a-z_]+"\)|flags_?\.(push|emplace)_back\("[a-z_]+"\)|(^|[^.])(found|warnings)\.push_back\(\{"[a-z_]+"' -r results bench --include='*.cpp'
    grep -ohE '^ +(return \{)?\{"[a-z_]+",' bench/inventory/preflight.cpp
  } | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u
)
[ "$(wc -l <<<"$set_flags")" -ge 25 ] || {
  echo "check_flags.sh: finds only these flags, and cannot tell: $set_flags"
  exit 1
}
status=0
for flag in $set_flags; do
  grep -qF "{\"$flag\"," results/analysis/flag_notes.cpp || { echo "results/analysis/flag_notes.cpp: no note of $flag" && status=1; }
  grep -qF "| \`$flag\` |" results/README.md || { echo "results/README.md: no row for the flag $flag" && status=1; }
done
makes_faults=$(grep -rlE 'Findings&|Fault\b|violations' results bench --include='*.cpp')
# shellcheck disable=SC2086  # words; code may have its first argument on the next line
codes=$(cat $makes_faults | tr -s ' \n' ' ' |
  grep -oE '(found\.broken|found\.note|broken)\( ?([a-z_]+, )?"[a-z]+(_[a-z]+)*",|((violations|warnings|faults|notes)\.push_back\(|\bFault|return \{|violations =) ?\{+ ?"[a-z]+(_[a-z]+)*", ?("|[a-z_]+[,.(]|[a-z]+ \+)' |
  grep -oE '"[a-z]+(_[a-z]+)*"' | tr -d '"' | sort -u)
[ "$(wc -l <<<"$codes")" -ge 60 ] || {
  echo "check_flags.sh: finds only these codes, and cannot tell: $codes"
  exit 1
}
for code in $codes; do
  grep -E '^\| `' results/README.md | cut -d '|' -f 2 | grep -qF "\`$code\`" || {
    echo "results/README.md: no row for the code $code"
    status=1
  }
done
exit $status
