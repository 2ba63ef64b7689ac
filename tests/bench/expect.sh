#!/usr/bin/env bash
# expect.sh CODE PATTERN COMMAND...: the command ends with CODE and its output has a line that matches PATTERN (grep -E).
# The pattern ^trainwatt_ops_all_ran$ means: benchmarks ran, and none was skipped.
code=$1 pattern=$2
shift 2
output=$("$@" 2>&1)
status=$?
if [ "$pattern" = '^trainwatt_ops_all_ran$' ] && grep -q 'bytes/s=' <<<"$output" && ! grep -q 'ERROR OCCURRED' <<<"$output"; then
  output+=$'\ntrainwatt_ops_all_ran'
fi
[ "$status" -eq "$code" ] && grep -qE "$pattern" <<<"$output" && exit 0
printf '%s\n\nexit code %d, expected %d and a line that matches %s\n' "$output" "$status" "$code" "$pattern"
exit 1
