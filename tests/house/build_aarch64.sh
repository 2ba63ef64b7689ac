#!/usr/bin/env bash
# build_aarch64.sh [BUILD [JOBS]]: compiles trainwatt and trainwatt-ops for aarch64 with Debian's cross compiler, and runs them, with the reference
# device, under qemu-user. BUILD (default: $TRAINWATT_AARCH64) keeps what is downloaded and built; the libraries of arm64 are unpacked
# there, and nothing is installed. Takes many minutes: exits with 77 and "skip: REASON" where no folder is named or a program is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-${TRAINWATT_AARCH64:-}} jobs=${2:-2}
skip() {
  echo "skip: $1"
  exit 77
}
[ -n "$build" ] || skip "takes many minutes: set TRAINWATT_AARCH64 to a folder"
for program in apt-get dpkg-deb aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || skip "$program is not installed (packages g++-aarch64-linux-gnu and qemu-user)"
done
# shellcheck source=scripts/lib/common.sh
. "$root/scripts/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
. "$root/scripts/lib/packages.sh"
mkdir -p "$build"
build=$(cd "$build" && pwd) sysroot=$build/sysroot

# ---- the libraries: their packages and all that those need, for a system without any package ----
if [ ! -e "$build/unpacked" ]; then
  mkdir -p "$build"/apt/{state/lists/partial,cache/archives/partial} "$sysroot"
  : >"$build/apt/status"
  settings=(-o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State=$build/apt/state" -o "Dir::State::status=$build/apt/status"
    -o "Dir::Cache=$build/apt/cache" -o Debug::NoLocking=true)
  wanted=()
  for package in "${library_packages[@]}"; do
    case ${package#*:} in g++ | libjs-*) ;; *) wanted+=("${package#*:}") ;; esac
  done
  apt-get "${settings[@]}" update >"$build/apt/log" 2>&1
  apt-get "${settings[@]}" install --yes --download-only --no-install-recommends "${wanted[@]}" >>"$build/apt/log" 2>&1 ||
    skip "the libraries of arm64 cannot be downloaded: $(tail -n 1 "$build/apt/log")"
  for package in "$build"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$sysroot"; done
  touch "$build/unpacked"
fi

# ---- build ----
library=$sysroot/usr/lib/aarch64-linux-gnu
cat >"$build/toolchain.cmake" <<TOOLCHAIN
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT $sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L $sysroot)
TOOLCHAIN
PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_LIBDIR=$library/pkgconfig:$sysroot/usr/share/pkgconfig \
  cmake -S "$root" -B "$build/build" -G Ninja "-DCMAKE_TOOLCHAIN_FILE=$build/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
  "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DTRAINWATT_TESTS=OFF -DTRAINWATT_CUDA=OFF \
  -DMPI_SKIP_COMPILER_WRAPPER=ON -DMPI_C_LIB_NAMES=mpi "-DMPI_mpi_LIBRARY=$library/openmpi/lib/libmpi.so" \
  "-DMPI_C_HEADER_DIR=$library/openmpi/include" >"$build/configure.log" 2>&1 || {
  tail -n 20 "$build/configure.log" >&2
  exit 1
}
cmake --build "$build/build" --parallel "$jobs" --target trainwatt trainwatt-ops

# ---- run ----
run() { qemu-aarch64 -L "$sysroot" "$build/build/bin/$1" "${@:2}"; }
run trainwatt validate "$root/tests/results/fixtures/good.json"
timed=$(run trainwatt-ops --device reference --benchmark_filter='^layer_norm_(for|back)ward/gpt2-124m/float32/' --benchmark_min_time=0.01)
printf '%s\n' "$timed"
[ "$(grep -c '^layer_norm_.* us ' <<<"$timed")" = 2 ] || {
  echo "build_aarch64.sh: trainwatt-ops did not time both operators" >&2
  exit 1
}
