# shellcheck shell=bash disable=SC2034,SC2154  # variables set here are used by the caller
# What the scripts share: messages, options, the build folder, the environment of a launch, signals. Sourced, with $root set.

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
# complain CODE TEXT: one line that says what happened, where, and what to do. The codes of scripts/repeat and scripts/slurm are listed
# in bench/README.md, those of the other scripts in scripts/packaging/README.md.
complain() { printf '%s: error[%s]: %s\n' "$(basename "$0")" "$1" "$2" >&2; }
# die STATUS CODE TEXT: the same, and the script exits with STATUS: 2 usage, 3 environment.
die() {
  complain "$2" "$3"
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

# show_help: the comment at the head of the script.
show_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# need_value OPTION VALUE: exits with 2 if the value is missing, empty (as from a shell variable that is not set) or another option.
need_value() {
  [ -n "${2:-}" ] || die 2 bad-value "$1 needs a value; see --help"
  [[ $2 != --* ]] || die 2 bad-value "$1 needs a value, not '$2'; see --help"
}
# need_number NAME VALUE LEAST: exits with 2 unless the value is a whole number of at least LEAST.
need_number() {
  [[ $2 =~ ^(0|[1-9][0-9]{0,8})$ && $2 -ge $3 ]] || die 2 bad-value "$1 takes a number of at least $3, not '$2'"
}

# parse_options "OPTIONS" ARGS…: the options of a script. "--out: --json" takes --out VALUE or --out=VALUE into $out and sets json=yes
# for --json; the caller sets the defaults. Other words are collected in the array `words` if OPTIONS has WORDS, and refused otherwise.
parse_options() {
  local known=" $1 " option variable value
  shift
  words=()
  while [ $# -gt 0 ]; do
    option=${1%%=*} variable=${option#--} variable=${variable//-/_}
    case $known in
      *" $option: "*)
        value=${1#"$option"} value=${value#=}
        if [ "$1" = "$option" ] && [ $# -ge 2 ]; then
          value=$2
          shift
        fi
        need_value "$option" "$value"
        printf -v "$variable" '%s' "$value"
        ;;
      *" $1 "*) printf -v "$variable" yes ;;
      *)
        case $1 in
          -h | --help)
            show_help
            exit 0
            ;;
        esac
        if [[ $1 = -* || $known != *' WORDS '* ]]; then die 2 unknown-option "unknown option '$1'; see --help"; fi
        words+=("$1")
        ;;
    esac
    shift
  done
}
# make_folder FOLDER OPTION: creates the folder that OPTION names, and checks that files can be written to it.
make_folder() {
  mkdir -p -- "$1" 2>/dev/null || die 3 output-not-writable "cannot create $1; choose another folder with $2 DIR"
  [ -w "$1" ] || die 3 output-not-writable "cannot write to $1; choose another folder with $2 DIR"
}
# need_device NAME: exits with 2 unless it is a --device of trainwatt-train.
need_device() {
  case $1 in auto | cuda | cpu | reference) ;; *) die 2 unknown-name "unknown --device '$1': known: auto, cuda, cpu, reference" ;; esac
}
# prepare_build: checks $jobs and creates $build, of quickstart and test.
prepare_build() {
  need_number --jobs "$jobs" 1
  make_folder "$build" --build
  build=$(cd "$build" && pwd)
}

# parse_run ARGS…: options of trainwatt-train, as scripts/repeat and scripts/slurm/launch need them. Sets folder and option (--out or
# --resume), config, names_plan (yes: --model, --suite or --config is among them), dry_run, writes_no_run (yes: only help, a version or
# one exported step) and the array options: all but folder and --repeat. Sets runs from --repeat; the caller sets it before, if it knows
# the number from elsewhere.
parse_run() {
  local name value count
  folder='' option=--resume config='' names_plan='' dry_run='' writes_no_run='' options=()
  while [ $# -gt 0 ]; do
    case $1 in
      --*=*) name=${1%%=*} value=${1#*=} count=1 ;;
      *) name=$1 value=${2:-} count=$(($# < 2 ? 1 : 2)) ;;
    esac
    case $name in --out | --resume | --repeat | --config) need_value "$name" "$value" ;; esac
    case $name in --model | --suite | --config) names_plan=yes ;; esac
    case $name in
      --out | --resume)
        [ -z "$folder" ] || die 2 options-conflict "give --out or --resume once; here both name the folder of the run"
        option=$name folder=${value%/}
        ;;
      --repeat)
        [ "${runs:-$value}" = "$value" ] || die 2 options-conflict "conflicting number of runs: $runs and --repeat $value; give one"
        runs=$value
        ;;
      --config)
        config=$value
        options+=("${@:1:count}")
        ;;
      *)
        case $name in
          --dry-run) dry_run=yes ;;
          --help | -h | --version | --export-step) writes_no_run=yes ;;
        esac
        options+=("$1")
        count=1
        ;;
    esac
    shift "$count"
  done
}

# forward_signals SIGNAL…: from now on they are forwarded to the process of run_child; $stopped names the last one.
forward_signals() {
  local signal
  stopped='' child=''
  for signal in "$@"; do
    # shellcheck disable=SC2064  # this signal's name
    trap "forward $signal" "$signal"
  done
}
# shellcheck disable=SC2317  # called by traps
forward() {
  stopped=$1 woken=yes
  [ -z "$child" ] || kill -s "$1" "$child" 2>/dev/null || true
}
# run_child COMMAND…: runs it to its end and sets status. A signal that arrives before it has started is forwarded, too.
run_child() {
  "$@" </dev/null &
  child=$!
  [ -z "$stopped" ] || kill -s "$stopped" "$child" 2>/dev/null || true
  woken=yes
  while [ -n "$woken" ]; do # a trapped signal ends `wait`, not the child
    woken='' status=0
    wait "$child" || status=$?
  done
  child=''
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
  local name compiler missing=() hints=''
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
    if declare -F on_path >/dev/null; then hints+=$(on_path "$name"); fi
  done
  [ ${#missing[@]} = 0 ] || die 3 program-missing "not on PATH: $(printf '%s, ' "${missing[@]}" | sed 's/, $//'); load the \
modules that provide them, or$([ -z "${no_install:-}" ] || printf ' call again without --no-install, or') install them$hints"
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
  die 3 configure-failed "cmake could not configure; the complete output is in $build/configure.log"
}

# By default, Open MPI refuses root.
allow_mpi_as_root() { if is_root; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi; }

# By default, Open MPI also refuses more ranks than cores. Sets the array mpi_options for N ranks; other MPIs have other
# options, and give each rank its share of the cores without any.
mpi_environment() {
  local ranks=$1 cores
  allow_mpi_as_root
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
