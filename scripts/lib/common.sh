# shellcheck shell=bash disable=SC2034,SC2154  # variables set here are used by the caller
# Shared by quickstart and test: messages, the build folder, the environment of a launch. Sourced, with $root set.

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
# die CODE MESSAGE: one line that says what happened, where, and what to do. Exit codes: 2 usage, 3 environment.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

is_root() { [ "$(id -u)" = 0 ]; }

# Physical cores this process may use, for `mpirun -np`: Open MPI counts cores as slots, not hardware threads.
usable_cores() {
  local cores threads
  threads=$(nproc)
  cores=$(lscpu -p=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l) || cores=0
  if [ "$cores" -lt 1 ] || [ "$cores" -gt "$threads" ]; then cores=$threads; fi
  printf '%s\n' "$cores"
}

# parse_options ARGS…: --build DIR, --jobs N, --out DIR, --no-install, --help (prints the caller's header comment).
parse_options() {
  build=$root/build out='' jobs=$(nproc) install=yes
  while [ $# -gt 0 ]; do
    case $1 in
      --build | --out | --jobs)
        [ $# -ge 2 ] || die 2 "$1 needs a value; see --help"
        case $1 in
          --build) build=$2 ;;
          --out) out=$2 ;;
          --jobs) jobs=$2 ;;
        esac
        shift
        ;;
      --no-install) install=no ;;
      -h | --help)
        sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
        exit 0
        ;;
      *) die 2 "unknown option '$1'; see --help" ;;
    esac
    shift
  done
  case $jobs in '' | *[!0-9]* | 0) die 2 "--jobs takes a number of at least 1, not '$jobs'" ;; esac
  mkdir -p "$build" 2>/dev/null || die 3 "cannot create the build folder $build; choose another one with --build DIR"
  [ -w "$build" ] || die 3 "cannot write to the build folder $build; choose another one with --build DIR"
  build=$(cd "$build" && pwd)
}

# The CUDA architecture to build for: CUDAARCHS, else that of the first visible GPU, else 90 (H100, H200).
cuda_architecture() {
  local found
  if [ -n "${CUDAARCHS:-}" ]; then
    printf '%s\n' "$CUDAARCHS"
    return
  fi
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ') || found=''
  case $found in
    '' | *[!0-9]*) printf '90\n' ;;
    *) printf '%s\n' "$found" ;;
  esac
}

# need_programs NAME…: exits with 3 if some are not on PATH, and names them. `c++` is any compiler that cmake would use.
need_programs() {
  local name compiler missing=()
  for name in "$@"; do
    if [ "$name" = c++ ]; then
      for compiler in ${CXX:-c++ g++ clang++}; do
        if command -v "$compiler" >/dev/null; then continue 2; fi
      done
      name="a C++ compiler (${CXX:-g++})"
    elif command -v "$name" >/dev/null; then
      continue
    fi
    missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] || die 3 "error[program-missing]: not on PATH: $(printf '%s, ' "${missing[@]}" | sed 's/, $//'); load the \
modules that provide them, or$([ "$install" = yes ] || printf ' call again without --no-install, or') install them"
}

# configure OPTIONS…: Release with Ninja in $build. A configured folder keeps its settings, except OPTIONS.
configure() {
  if [ -f "$build/CMakeCache.txt" ] && [ -f "$build/build.ninja" ]; then
    [ $# = 0 ] || cmake "$@" "$build" >"$build/configure.log" 2>&1 || configure_failed
    return 0
  fi
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_CUDA_ARCHITECTURES=$(cuda_architecture)" "$@" >"$build/configure.log" 2>&1 || configure_failed
  grep -E '^-- (CUDA|The CXX|oneDNN|MPI|.*: not found, built without)' "$build/configure.log" || true
  awk '/^  warning\[/ { shown = 1 } /^$|^Call Stack/ { shown = 0 } shown' "$build/configure.log" # CMake folds them
}
configure_failed() {
  tail -n 30 "$build/configure.log" >&2
  die 3 "cmake could not configure; the complete output is in $build/configure.log"
}

# By default Open MPI refuses root, and more ranks than cores. Sets the array mpi_options for N ranks; other MPIs have other
# options, and give each rank its share of the cores without any.
mpi_environment() {
  local ranks=$1 cores
  if is_root; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  cores=$(usable_cores)
  if [[ $(mpirun --version 2>/dev/null) != *'Open MPI'* ]]; then
    mpi_options=()
  elif [ "$cores" -lt "$ranks" ]; then
    mpi_options=(--oversubscribe --bind-to none)
  else # each rank gets its share of the cores: by default, Open MPI binds two ranks to one core each
    mpi_options=(--map-by "slot:PE=$((cores / ranks))" --bind-to core)
  fi
}

# The folder of the programs: build/bin of the checkout, or bin of the prefix that these scripts are installed in.
programs_folder() {
  local folder=$root/build/bin
  if [ ! -d "$folder" ] && [ -x "$root/../../bin/trainwatt" ]; then folder=$(cd "$root/../../bin" && pwd); fi
  printf '%s\n' "$folder"
}

# elapsed_since START: seconds since then, for the times printed at the end.
elapsed_since() { printf '%s' "$(($(date +%s) - $1))"; }
