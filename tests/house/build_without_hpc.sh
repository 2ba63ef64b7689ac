#!/usr/bin/env bash
# build_without_hpc.sh BUILD JOBS WHOLE: configures and builds -DTRAINWATT_HPC=OFF as on a machine without MPI, oneDNN, hwloc,
# OpenMP and CUDA: CMake must not find them, and including one of their headers is an error. The caller runs the tests: of
# the tool alone, for those of its rooms are of the same sources and ran in WHOLE, the build of everything.
set -euo pipefail
build=$1 jobs=$2 whole=$(cd "$3" && pwd)
# shellcheck source=tests/house/beside.sh
. "$(dirname "${BASH_SOURCE[0]}")/beside.sh"
settings=()
for package in MPI OneDNN OpenMP CUDAToolkit hwloc; do settings+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
configure_beside "-I$here/absent" -DTRAINWATT_HPC=OFF -DTRAINWATT_TEST_ROOMS=bench/tool "${settings[@]}"
cmake --build "$build" --parallel "$jobs"
if ldd "$build/bin/trainwatt" | grep -E 'libmpi|libdnnl|libgomp|libhwloc|libcuda|libnvidia|libnccl'; then
  echo "$build/bin/trainwatt links the libraries above; the tool must start where they are missing" >&2
  exit 1
fi
