#!/usr/bin/env bash
# build_with_onednn3.sh BUILD JOBS WHOLE: builds the cpu device with oneDNN 3 from PyPI, its own tests and those of all devices'
# operators; the caller runs them. WHOLE is the build of everything with the system's oneDNN. Exit 77 with "skip: REASON" where
# oneDNN 3 cannot be downloaded within three minutes.
set -euo pipefail
mkdir -p "$1"
build=$(cd "$1" && pwd) jobs=$2 whole=$(cd "$3" && pwd)
# shellcheck source=tests/house/beside.sh
. "$(dirname "${BASH_SOURCE[0]}")/beside.sh"
# shellcheck source=tests/house/pypi.sh
. "$here/pypi.sh"

prefix=$build/onednn3
if ! cmp -s "$here/onednn3.txt" "$prefix/complete"; then
  rm -rf "$prefix"
  from_pypi 'oneDNN 3' "$here/onednn3.txt" "$build/wheels"
  mkdir "$prefix"
  for data in "$build"/wheels/unpacked/*.data/data; do cp -r "$data/." "$prefix"; done
  rm -r "$build/wheels"
  cp "$here/onednn3.txt" "$prefix/complete"
fi

configure_beside '' -DTRAINWATT_CUDA=OFF "-DTRAINWATT_TEST_ROOMS=compute;compute_cpu" "-DCMAKE_PREFIX_PATH=$prefix"
cmake --build "$build" --parallel "$jobs" --target compute_cpu_test compute_products_test compute_operators_test compute_contract_test
ldd "$build/tests/compute_cpu_test" | grep "libdnnl.*$prefix" || {
  echo "$build/tests/compute_cpu_test does not link the oneDNN of $prefix; see $build.log" >&2
  exit 1
}
