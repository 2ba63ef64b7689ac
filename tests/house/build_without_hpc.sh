#!/usr/bin/env bash
# build_without_hpc.sh BUILD JOBS: configures and builds -DTRAINWATT_HPC=OFF as on a machine without MPI, oneDNN, hwloc,
# OpenMP and CUDA: CMake must not find them, and including one of their headers is an error. The caller runs the tests.
# -O1: the same sources were built as they are shipped before; here they only have to build and work.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$1 jobs=$2
disabled=()
for package in MPI OneDNN OpenMP CUDAToolkit hwloc; do disabled+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRAINWATT_HPC=OFF -DTRAINWATT_TESTS=ON \
  "-DCMAKE_CXX_FLAGS=-I$here/absent" "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" "${disabled[@]}" >"$build.log" 2>&1 || {
  tail -n 20 "$build.log" >&2
  exit 1
}
cmake --build "$build" --parallel "$jobs"
if ldd "$build/bin/trainwatt" | grep -E 'libmpi|libdnnl|libgomp|libhwloc|libcuda|libnvidia|libnccl'; then
  echo "$build/bin/trainwatt links the libraries above; the tool must start where they are missing" >&2
  exit 1
fi
