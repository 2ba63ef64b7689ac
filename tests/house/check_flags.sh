#!/usr/bin/env bash
# check_flags.sh ROOT: every flag that a program sets has a note (results/flag_notes.cpp) and a row in the table
# of results/README.md.
set -euo pipefail
cd "$1"
set_flags=$(
  {
    grep -ohE 'flag\("[a-z_]+"\)|flags_?\.(push|emplace)_back\("[a-z_]+"\)|(found|warnings)\.push_back\(\{"[a-z_]+"' -r results bench --include='*.cpp'
    grep -ohE '^ +(return \{)?\{"[a-z_]+",' bench/inventory/preflight.cpp
  } | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u
)
[ "$(wc -l <<<"$set_flags")" -ge 25 ] || {
  echo "check_flags.sh: finds only these flags, and cannot tell: $set_flags"
  exit 1
}
status=0
for flag in $set_flags; do
  grep -qF "{\"$flag\"," results/flag_notes.cpp || { echo "results/flag_notes.cpp: no note of $flag" && status=1; }
  grep -qF "| \`$flag\` |" results/README.md || { echo "results/README.md: no row for the flag $flag" && status=1; }
done
exit $status
