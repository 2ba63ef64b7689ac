# shellcheck shell=bash disable=SC2034  # variables set here are used by the caller
# What the tests of scripts share: a folder $work, programs that stand in for the machine's, and cases. Sourced.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
# expect CODE TEXT COMMAND…: the command's exit code and a piece of its output.
expect() {
  local code=$1 text=$2 status=0
  shift 2
  "$@" >"$work/output" 2>&1 </dev/null || status=$?
  if [ "$status" != "$code" ] || ! grep -qF -- "$text" "$work/output"; then
    printf '%s\n  wanted exit %s and "%s"; got exit %s and:\n' "$*" "$code" "$text" "$status"
    sed 's/^/    /' "$work/output" | head -n 20
    failures=$((failures + 1))
  fi
}
stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
mkdir "$work/bin"
PATH=$work/bin:$PATH
# The last call: fails if a case has.
finish_cases() {
  [ "$failures" = 0 ] || { echo "$failures cases failed"; exit 1; }
  echo "all cases answered as they should"
}
