#!/usr/bin/env bash
# build_without_hpc.sh BUILD JOBS WHOLE: configures and builds -DTRAINWATT_HPC=OFF as on a machine without MPI, oneDNN, hwloc,
# OpenMP and CUDA: CMake must not find them, and including one of their headers is an error. The caller runs the tests: of
# the tool alone, for those of its rooms are of the same sources and ran in WHOLE, the build of everything.
# What WHOLE has compiled by the same command without reading one of those headers is taken from there, and linked here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$1 jobs=$2 whole=$(cd "$3" && pwd)
of_whole() { sed -n "s/^$1:[^=]*=//p" "$whole/CMakeCache.txt"; }
settings=()
for package in MPI OneDNN OpenMP CUDAToolkit hwloc; do settings+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
for name in CMAKE_BUILD_TYPE CMAKE_COMPILE_WARNING_AS_ERROR CMAKE_CXX_COMPILER TRAINWATT_SANITIZE; do
  settings+=("-D$name=$(of_whole $name)")
done
cmake -S "$root" -B "$build" -G Ninja -DTRAINWATT_HPC=OFF -DTRAINWATT_TESTS=ON -DTRAINWATT_TEST_ROOMS=tool "${settings[@]}" \
  "-DCMAKE_CXX_FLAGS=$(of_whole CMAKE_CXX_FLAGS) -I$here/absent" "-DCMAKE_CXX_COMPILER_LAUNCHER=$here/take_object.sh;$whole" \
  >"$build.log" 2>&1 || {
  tail -n 20 "$build.log" >&2
  exit 1
}
rm -rf "$build/same"
python3 "$here/same_objects.py" "$whole" "$build" "$here/absent"
cmake --build "$build" --parallel "$jobs"
if ldd "$build/bin/trainwatt" | grep -E 'libmpi|libdnnl|libgomp|libhwloc|libcuda|libnvidia|libnccl'; then
  echo "$build/bin/trainwatt links the libraries above; the tool must start where they are missing" >&2
  exit 1
fi
