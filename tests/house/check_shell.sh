#!/usr/bin/env bash
# check_shell.sh ROOT: all shell scripts pass shellcheck.
set -euo pipefail
root=$(cd "$1" && pwd)
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! command -v shellcheck >/dev/null; then
  echo "skip: shellcheck is not installed"
  exit 77
fi
cd "$root"
scripts=$(list_files | grep -E '^(scripts|tests|\.ci)/' | while IFS= read -r file; do
  case $(head -c 64 "$file" | head -n 1 | tr -d '\0') in '#!'*bash* | '#!'*/sh | '# shellcheck shell'*) printf '%s\n' "$file" ;; esac
done)
[ -n "$scripts" ] || finish "no scripts found under $root: the list is wrong"
printf '%s\n' "$scripts" | xargs shellcheck -x
