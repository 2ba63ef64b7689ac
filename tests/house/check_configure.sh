#!/usr/bin/env bash
# check_configure.sh ROOT: what cmake answers where libraries are missing, where two MPIs are mixed, and where the prefix cannot be
# written or has another version. It only configures, without CUDA and tests; one folder serves for most cases.
set -euo pipefail
root=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
# configure OPTION…: in $build; its exit code is $code, its output, unwrapped, $said.
configure() {
  code=0
  cmake -S "$root" -B "$build" "$@" >"$work/output" 2>&1 || code=$?
  said=$(tr '\n' ' ' <"$work/output" | tr -s ' ')
}
wrong() {
  printf '%s\n  got exit %s and:\n' "$1" "$code"
  sed 's/^/    /' "$work/output" | tail -n 20
  failures=$((failures + 1))
}
# expect CODE TEXT…: of the last configure(): fails (1) or not (0), and says each of these.
expect() {
  local text
  if [ "$((code != 0))" != "$1" ]; then wrong "wanted exit $1"; fi
  for text in "${@:2}"; do
    case $said in *"$text"*) ;; *) wrong "wanted \"$text\"" ;; esac
  done
}
expect_not() {
  local text
  for text in "$@"; do
    case $said in *"$text"*) wrong "did not want \"$text\"" ;; esac
  done
}
stand_in() {
  mkdir -p "$(dirname "$1")"
  printf '#!/bin/sh\necho "%s"\n' "$2" >"$1"
  chmod +x "$1"
}
version=$(sed -n 's/^project(trainwatt VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
stand_in "$work/bin/trainwatt" "trainwatt $version"  # first on PATH, whatever is installed here
export PATH=$work/bin:$PATH TRAINWATT_OS_RELEASE=$work/os-release
unset CMAKE_PREFIX_PATH CUDACXX
few=(-G Ninja -DTRAINWATT_TESTS=OFF -DTRAINWATT_CUDA=OFF)
hidden() { printf -- '-DCMAKE_DISABLE_FIND_PACKAGE_%s=ON\n' "$@"; }
seen=('-UCMAKE_DISABLE_FIND_PACKAGE_*')
debian='ID=debian VERSION_ID=12' rocky='ID=rocky ID_LIKE=rhel VERSION_ID=9.4'
on() { tr ' ' '\n' <<<"$1" >"$TRAINWATT_OS_RELEASE"; }

# ---- nothing missing ----
on "$debian"
build=$work/build
configure "${few[@]}"
expect 0 '-- MPI: '
expect_not 'warning[' 'error['

# ---- a library that must be there, alone and with others: one sentence, with the package of this distribution ----
libraries=(MPI OpenMP benchmark CLI11 fmt nlohmann_json XlsxWriter LibArchive)
for library in "${libraries[@]}"; do
  configure "${seen[@]}" "$(hidden "$library")"
  # shellcheck disable=SC2016  # the inner shell expands it
  package=$(bash -euc '. "$0/common.sh"; . "$0/packages.sh"; package_of "$1"' "$root/scripts/lib" "$library")
  [ -n "$package" ] || wrong "packages.sh has no package for $library"
  expect 1 "error[library-missing]: not found: $library; " "apt-get update && apt-get install --no-install-recommends $package)"
  if [ "$library" = MPI ]; then expect 1 '-DTRAINWATT_HPC=OFF'; fi
done
configure "${seen[@]}" "$(hidden fmt)"
expect_not '-DTRAINWATT_HPC=OFF'
on "$rocky"
configure "${seen[@]}" "$(hidden MPI)"
expect 1 'dnf install openmpi-devel'
on 'ID=nixos'
configure "${seen[@]}" "$(hidden MPI)"
expect 1 'install the package (Debian 12: libopenmpi-dev)'
on "$debian"

# ---- the programs of an MPI without its headers, as Debian's openmpi-bin alone ----
stand_in "$work/mpi/mpicc" "gcc -I$work/mpi/include -I$work/mpi/include/openmpi -pthread -lmpi"
build=$work/without-headers
configure "${few[@]}" -DMPI_C_COMPILER="$work/mpi/mpicc"
expect 1 'error[library-missing]: not found: MPI; ' 'libopenmpi-dev'
build=$work/build

# ---- the tool alone has no devices ----
build=$work/tool
for device in CPU CUDA; do
  configure -G Ninja -DTRAINWATT_HPC=OFF -UTRAINWATT_CPU -DTRAINWATT_$device=ON
  expect 1 'error[options-conflict]: TRAINWATT_HPC=OFF builds the tool trainwatt alone' "TRAINWATT_$device=ON"
done
build=$work/build

# ---- libraries that may be missing: built without, said once ----
configure "${seen[@]}" "$(hidden OneDNN)"
expect 0 'OneDNN: not found, built without the cpu device' 'libdnnl'
configure "${seen[@]}" "$(hidden OneDNN)" -DTRAINWATT_CPU=ON
expect 1 'error[library-missing]: TRAINWATT_CPU=ON' 'libdnnl' '-DTRAINWATT_CPU=OFF'
configure "${seen[@]}" -DTRAINWATT_CPU=OFF -DTRAINWATT_TESTS=ON -DTRAINWATT_CUDA=OFF
expect 0 'CPU device: left out, as TRAINWATT_CPU=OFF asks' 'Tests: without those of whole programs'
expect_not 'warning[' 'OneDNN: '
configure -DTRAINWATT_TESTS=OFF
mkdir -p "$work/old/oneapi/dnnl" # a version that is too old is no library that is missing
printf '#define DNNL_VERSION_%s\n' 'MAJOR 2' 'MINOR 5' 'PATCH 4' >"$work/old/oneapi/dnnl/dnnl_version.h"
touch "$work/old/libdnnl.so"
old=(-DDNNL_INCLUDE_DIR="$work/old" -DDNNL_LIBRARY="$work/old/libdnnl.so")
configure "${seen[@]}" "${old[@]}" -DTRAINWATT_CPU=AUTO
expect 0 "oneDNN: 2.5.4 ($work/old/libdnnl.so) was found, but 2.6 to 3.x is needed; built without the cpu device"
expect_not 'not found, built without the cpu device' libdnnl-dev
configure "${seen[@]}" "${old[@]}" -DTRAINWATT_CPU=ON
expect 1 'error[library-version]: TRAINWATT_CPU=ON: oneDNN 2.5.4' '-DTRAINWATT_CPU=OFF'
expect_not libdnnl-dev
configure "${seen[@]}" -UDNNL_INCLUDE_DIR -UDNNL_LIBRARY "$(hidden PkgConfig)" -DTRAINWATT_CPU=AUTO # hwloc is found without pkg-config
expect_not 'hwloc: not found' 'the cpu device'
configure "${seen[@]}" -DHWLOC_LIBRARY=
expect 0 'hwloc: not found, built without the topology'
configure "${seen[@]}" -UHWLOC_LIBRARY -DPOWERCAP_LIBRARY=
expect 0 'powercap: not found, built without RAPL'
CUDACXX=$work/no-nvcc configure "${seen[@]}" -UPOWERCAP_LIBRARY -DTRAINWATT_CUDA=ON
expect 1 'error[cuda-missing]: TRAINWATT_CUDA=ON, but ' 'TRAINWATT_CUDA=OFF'

# ---- GoogleTest, which the tests alone need ----
configure "${seen[@]}" "$(hidden GTest)" -DTRAINWATT_CUDA=OFF -DTRAINWATT_TESTS=ON
expect 1 'error[library-missing]: not found: GTest; ' 'apt-get install --no-install-recommends libgtest-dev)' 'use -DTRAINWATT_TESTS=OFF'
configure "$(hidden GTest)" -DTRAINWATT_TESTS=OFF
expect 0

# ---- a compiler that is too old: what helps on this distribution ----
printf '#!/bin/sh\nexec %s -U__GNUC__ -D__GNUC__=7 "$@"\n' "$(type -P g++)" >"$work/old-g++"
chmod +x "$work/old-g++"
build=$work/old
for distribution in "$rocky" 'ID=sles VERSION_ID=15.6'; do
  on "$distribution"
  configure "${few[@]}" -DTRAINWATT_HPC=OFF -DCMAKE_CXX_COMPILER="$work/old-g++"
  case $distribution in
    "$rocky") expect 1 "error[program-too-old]: $work/old-g++ is g++ 7." 'gcc-toolset-13/enable' ;;
    *) expect 1 "error[program-too-old]: $work/old-g++ is g++ 7." 'gcc13-c++' ' g++-13 ' 'CXX=g++-13 CC=gcc-13' ;;
  esac
done
on "$debian"
printf '#!/bin/sh\nexec %s -D__clang__=1 -D__clang_major__=14 -D__clang_minor__=0 -D__clang_patchlevel__=6 "$@"\n' "$(type -P g++)" >"$work/old-g++"
chmod +x "$work/old-g++"
configure --fresh "${few[@]}" -DTRAINWATT_HPC=OFF -DCMAKE_CXX_COMPILER="$work/old-g++"
expect 1 "error[program-too-old]: $work/old-g++ is clang 14.0.6, too old (16 or later): "

# ---- all at once ----
build=$work/all
mapfile -t all < <(hidden OneDNN "${libraries[@]}")
configure "${few[@]}" "${all[@]}" -DTRAINWATT_VALIJSON_INCLUDE=
expect 1 'not found: CLI11, fmt, nlohmann_json, XlsxWriter, LibArchive, valijson, OpenMP, MPI, benchmark; ' libvalijson-dev
mapfile -t all < <(hidden OneDNN MPI OpenMP benchmark PkgConfig)
CUDACXX=$work/no-nvcc configure "${few[@]}" "${seen[@]}" "${all[@]}" -UTRAINWATT_VALIJSON_INCLUDE -DTRAINWATT_CUDA=AUTO \
  -DTRAINWATT_HPC=OFF -DPOWERCAP_LIBRARY= -DTRAINWATT_CHART_JS=
expect 0 'powercap: not found' 'Chart.js'
build=$work/build

# ---- a launcher of another MPI than the libraries ----
for said_by_launcher in 'HYDRA build details: Version: 4.0.2' 'Intel(R) MPI Library for Linux* OS, Version 2021.11' 'mpirun (Open MPI) 5.0.7' 'srun-like 1.0'; do
  stand_in "$work/bin/mpirun" "$said_by_launcher"
  configure "${seen[@]}" -DTRAINWATT_CUDA=OFF
  family="$(sed -n 's/^-- MPI: //p' "$work/output")"
  case $said_by_launcher:$family in
    HYDRA*:*'Open MPI'*) expect 0 'warning[mpi-mixed]' 'belongs to MPICH,' ;;
    Intel*:*'Open MPI'*) expect 0 'warning[mpi-mixed]' 'belongs to Intel MPI,' ;;
    mpirun*:*MPICH* | mpirun*:*Intel*) expect 0 'warning[mpi-mixed]' ;;
    mpirun*:*'v5.0.7'*) expect 0 'warning[mpi-mixed]' ;;
    mpirun*:*) expect 0 'warning[mpi-mixed]' 'belongs to Open MPI 5.0.7,' ;;
    *) expect_not 'warning[mpi-mixed]' ;;
  esac
done
# ---- of the same version, but of another installation: mpicc is of one, mpirun of the other ----
printf '#!/bin/sh\nexec %s "$@"\n' "$(type -P mpicc)" >"$work/mpicc"
chmod +x "$work/mpicc"
of_library=${family%% /*}
case $of_library in MPICH*) of_library="HYDRA build details: Version: ${of_library#MPICH }" ;; esac
mkdir -p "$work/one/bin" "$work/two/bin"
for folder in one two; do
  stand_in "$work/$folder/bin/mpirun" "$of_library"
  cp "$work/mpicc" "$work/$folder/bin/mpicc"
done
rm "$work/bin/mpirun"
PATH=$work/two/bin:$PATH configure --fresh "${few[@]}" -DMPI_C_COMPILER="$work/one/bin/mpicc"
expect 0 'warning[mpi-mixed]' "$work/two/bin/mpirun belongs to " " in $work/two/bin, but the programs will use " " in $work/one/bin ("
PATH=$work/one/bin:$PATH configure
expect_not 'warning[mpi-mixed]'
configure --fresh "${few[@]}"
expect_not 'warning[mpi-mixed]'

# ---- quickstart and test, which keep the rest of the output in a file, show what is missing and what is warned of ----
stand_in "$work/bin/mpirun" 'HYDRA build details:'
if ! grep -q 'MPI: Open MPI' "$work/output"; then stand_in "$work/bin/mpirun" 'mpirun (Open MPI) 5.0.7'; fi
code=0
# shellcheck disable=SC2016  # the inner shell expands it
env -C "$work" root="$root" build="$work/shown" CUDAARCHS=90 bash -euc '. "$root/scripts/lib/common.sh"; mkdir "$build"; configure "$@"' bash \
  -DTRAINWATT_TESTS=OFF -DTRAINWATT_CUDA=OFF "$(hidden OneDNN)" >"$work/output" 2>&1 || code=$?
said=$(tr '\n' ' ' <"$work/output" | tr -s ' ')
expect 0 'warning[mpi-mixed]: ' 'put the mpirun of' 'OneDNN: not found, built without' '-- MPI: '
expect_not 'Call Stack' 'Configuring done'
rm "$work/bin/mpirun"
# ---- quickstart does not build for long what could not measure on the CPU ----
mkdir -p "$work/old-prefix/include" "$work/old-prefix/lib"
cp -r "$work/old/oneapi" "$work/old-prefix/include/"
touch "$work/old-prefix/lib/libdnnl.so"
code=0
env -C "$work" CMAKE_PREFIX_PATH="$work/old-prefix" CUDAARCHS=90 CUDACXX="$work/no-nvcc" "$root/scripts/quickstart" --no-install --device cpu \
  --build "$work/quick" --out "$work/quick-out" >"$work/output" 2>&1 || code=$?
said=$(tr '\n' ' ' <"$work/output" | tr -s ' ')
expect 1 'error[library-version]: TRAINWATT_CPU=ON: oneDNN 2.5.4' 'error[configure-failed]'
expect_not '3/4 measure'
[ "$code" = 3 ] || wrong 'wanted exit 3'

# ---- the prefix ----
touch "$work/file"
configure -DCMAKE_INSTALL_PREFIX="$work/file/prefix"
expect 0 "warning[prefix-not-writable]: cmake --install cannot write to $work/file;"
configure -DCMAKE_INSTALL_PREFIX="$work/not/there/yet"
expect_not 'warning['
stand_in "$work/prefix/bin/trainwatt" "trainwatt $version (0123456)"
configure -DCMAKE_INSTALL_PREFIX="$work/prefix"
expect_not 'warning['
stand_in "$work/prefix/bin/trainwatt" 'trainwatt 0.0.9'
configure -DCMAKE_INSTALL_PREFIX="$work/prefix"
expect 0 "warning[other-version]: $work/prefix/bin/trainwatt is version 0.0.9"
stand_in "$work/prefix/bin/trainwatt" "trainwatt $version"
stand_in "$work/bin/trainwatt" 'trainwatt 9.9.9'
configure
expect 0 "warning[other-version]: $work/bin/trainwatt is version 9.9.9"
stand_in "$work/bin/trainwatt" "trainwatt $version"
configure -DCMAKE_INSTALL_PREFIX=
expect 1 'error[prefix-empty]: CMAKE_INSTALL_PREFIX is empty;'

# ---- the prefix that cmake --install is told, before anything is copied ----
configure -DCMAKE_INSTALL_PREFIX="$work/not/there/yet"
install_to() {
  code=0
  cmake --install "$build" --prefix "$1" >"$work/output" 2>&1 || code=$?
  said=$(tr '\n' ' ' <"$work/output" | tr -s ' ')
}
install_to "$work/file/prefix"
expect 1 "error[prefix-not-writable]: cmake --install cannot write to $work/file; name another prefix with --prefix"
expect_not '-- Installing' 'file INSTALL'
stand_in "$work/prefix/bin/trainwatt" 'trainwatt 0.0.9'
install_to "$work/prefix"
expect 1 "warning[other-version]: $work/prefix/bin/trainwatt is version 0.0.9" # there is no program to install
case ${said%%file INSTALL*} in *other-version*) ;; *) wrong 'wanted the warning before the first file' ;; esac
exit $((failures > 0))
