#!/usr/bin/env bash
# check_presets.sh ROOT: CMake reads the presets, and each of the six exists for configure, build and test.
set -euo pipefail
cd "$1"
for kind in configure build test; do
  listed=$(cmake --list-presets="$kind")
  for preset in dev ci release gpu asan tsan; do
    grep -q "\"$preset\"" <<<"$listed" || { echo "no $kind preset $preset"; exit 1; }
  done
done
# An empty run of any of them is an error: every test preset inherits this one base.
grep -q '"noTestsAction": "error"' CMakePresets.json || { echo "noTestsAction is not error"; exit 1; }
[ "$(grep -c '"inherits": "base"' CMakePresets.json)" = 12 ] || { echo "a preset does not inherit its base"; exit 1; }
