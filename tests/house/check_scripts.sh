#!/usr/bin/env bash
# check_scripts.sh ROOT: what the scripts answer when something is wrong (scripts/check_packages.sh: when packages are missing;
# scripts/check_house.sh: the house checks). Each case runs the real script with stand-ins on PATH; nothing is installed or built.
set -euo pipefail
root=$(cd "$1" && pwd)
here=$root/tests/house
# shellcheck source=tests/house/scripts/cases.sh
. "$here/scripts/cases.sh"
stand_in id 'echo 0'

# ---- the folder of the programs: that of a prefix only where they are in it ----
mkdir -p "$work/prefix/bin" "$work/prefix/share/trainwatt"
for wanted in share/trainwatt/build/bin bin; do
  # shellcheck disable=SC2016  # the inner shell expands it
  expect 0 "$work/prefix/$wanted" env -C "$root" root="$work/prefix/share/trainwatt" bash -euc '. scripts/lib/common.sh; programs_folder'
  printf '#!/bin/sh\n' >"$work/prefix/bin/trainwatt"
  chmod +x "$work/prefix/bin/trainwatt"
done

# ---- without what builds: said before cmake is called ----
mkdir "$work/few"
for program in bash sh env nproc sed dirname basename mkdir rmdir rm date cat; do ln -s "$(type -P $program)" "$work/few/$program"; done
for command in quickstart test; do
  few=(env PATH="$work/few" "$root/scripts/$command" --no-install --build "$work/build")
  expect 3 'error[program-missing]: not on PATH: cmake, ninja, a C++ compiler (g++), mpirun;' "${few[@]}"
  if grep -q configure.log "$work/output"; then echo "$command names a log that is not there"; failures=$((failures + 1)); fi
done
ln -s "$(type -P true)" "$work/few/g++"
expect 3 'error[program-missing]: not on PATH: cmake, ninja, mpirun;' env PATH="$work/few" \
  "$root/scripts/quickstart" --no-install --build "$work/build"

# ---- warnings are errors in CI, and nowhere else ----
stand_in cmake "[ \"\$1\" != --version ] || { echo 'cmake version 3.25.1'; exit 0; }; echo \"\$*\" >$work/configured; exit 1"
stand_in ninja 'exit 0'
stand_in mpirun 'exit 0'
for environment in ci bare; do
  expect 3 'error[configure-failed]: ' env TRAINWATT_TEST_ENVIRONMENT=$environment "$root/scripts/test" --no-install \
    --build "$work/$environment"
  status=0
  grep -q -e '-DTRAINWATT_TESTS=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON' "$work/configured" || status=1
  if [ "$environment:$status" != ci:0 ] && [ "$environment:$status" != bare:1 ]; then
    echo "scripts/test in the environment $environment: warnings must be errors in ci alone; cmake got: $(cat "$work/configured")"
    failures=$((failures + 1))
  fi
done
rm "$work/bin/cmake" "$work/bin/ninja" "$work/bin/mpirun"

# ---- options ----
for command in quickstart test; do
  expect 0 '--build DIR' "$root/scripts/$command" --help
  expect 2 "$command: error[unknown-option]: unknown option '--biuld'" "$root/scripts/$command" --biuld x
  expect 2 'error[unknown-option]: ' "$root/scripts/$command" word
  expect 2 'error[bad-value]: --jobs takes a number' "$root/scripts/$command" --jobs many
  expect 2 'error[bad-value]: --build needs a value' "$root/scripts/$command" --build
  expect 3 'error[output-not-writable]: ' "$root/scripts/$command" --build /proc/none
  expect 3 'error[output-not-writable]: cannot create /proc/none;' "$root/scripts/$command" --build=/proc/none
  expect 2 "error[bad-value]: --build needs a value, not '--jobs'" "$root/scripts/$command" --build --jobs 2
  expect 2 "error[bad-value]: --jobs needs a value; " "$root/scripts/$command" --jobs=
  expect 2 "error[unknown-option]: unknown option '--no-install=yes'" "$root/scripts/$command" --no-install=yes
done
expect 2 'error[unknown-name]: ' env TRAINWATT_TEST_ENVIRONMENT=nowhere "$root/scripts/test" --build "$work/build"
for command in package check-oracle check-distributions bench-cpu gpu-validate oracle/make-golden oracle/make-convergence oracle/make-statistics; do
  expect 2 "${command##*/}: error[unknown-option]: " "$root/scripts/$command" --nonsense
  expect 0 'Exit codes: 0 ' "$root/scripts/$command" --help
  expect 0 "scripts/$command " "$root/scripts/$command" --help
done
for command in package check-oracle quickstart test oracle/make-golden oracle/make-convergence oracle/make-statistics; do
  expect 2 "${command##*/}: error[bad-value]: --build needs a value; " "$root/scripts/$command" --build ''
done
expect 2 'error[option-needs]: ' "$root/scripts/package"
expect 2 'error[option-needs]: ' "$root/scripts/check-distributions"
expect 2 'error[unknown-name]: ' "$root/scripts/check-oracle" --model gpt2-tiny,gpt3
expect 3 'error[build-missing]: ' "$root/scripts/check-oracle" --build "$work/none" --model gpt2-tiny --json
expect 3 'error[program-missing]: ' "$root/scripts/oracle/make-golden" --build "$work/none"
expect 2 'error[bad-value]: argument --blocks' "$root/scripts/bench-cpu" --blocks many
expect 2 'error[unknown-name]: ' "$root/scripts/bench-cpu" --only gpt3
expect 3 'error[build-missing]: ' "$root/scripts/bench-cpu" --build "$work/none"
# What is wrong with the call of bench-cpu is said before anything is measured.
expect 0 '4 no valid measurement' "$root/scripts/bench-cpu" --help
mkdir -p "$work/built/bin"
for program in trainwatt-train trainwatt-ops; do
  printf '#!/bin/sh\necho measured; exit 1\n' >"$work/built/bin/$program"
  chmod +x "$work/built/bin/$program"
done
bench=("$root/scripts/bench-cpu" --build "$work/built" --only gpt2-bf16)
for value in 0 -1 9999999; do expect 2 'error[bad-value]: ' "${bench[@]}" "--threads=$value"; done
expect 2 'error[bad-value]: argument --steps' "${bench[@]}" --steps 0
for option in --only --build --out --torch; do expect 2 "error[bad-value]: $option needs a value; " "$root/scripts/bench-cpu" $option ''; done
expect 2 "error[bad-value]: --out needs a value, not '--check'; " "${bench[@]}" --out=--check
expect 3 'error[output-not-writable]: ' "${bench[@]}" --out /proc/none/figures.json
expect 3 'error[output-not-writable]: ' "${bench[@]}" --out "$work"
expect 3 'error[program-missing]: --torch /none: ' "${bench[@]}" --torch /none
expect 3 'error[program-missing]: --torch /none: ' "$root/scripts/bench-cpu" --build "$work/built" --torch /none --only library
expect 3 'error[program-missing]: --llmc /none: ' "${bench[@]}" --llmc /none
expect 3 'error[packages-missing]: ' "${bench[@]}" --torch "$(type -P false)"
ln -s "$(python3 -c "import sys; print(sys.executable)")" "$work/few/python3"
expect 3 'error[program-missing]: no mpirun on PATH' env PATH="$work/few" "${bench[@]}"
# quickstart before it builds, check-oracle before it installs.
quick=(env PATH="$work/few" "$root/scripts/quickstart" --no-install --build "$work/build")
expect 2 'error[unknown-name]: unknown --device' "${quick[@]}" --device nope
expect 2 'error[bad-value]: --device needs a value; ' "${quick[@]}" --device ''
expect 2 'error[bad-value]: --out needs a value; ' "${quick[@]}" --out ''
expect 2 'error[file-exists]: ' "${quick[@]}" --out "$work/built"
expect 3 'error[output-not-writable]: ' "${quick[@]}" --out /proc/none
stand_in python3 'exit 1'
oracle=("$root/scripts/check-oracle" --build "$work/built")
expect 2 'error[unknown-name]: unknown --device' "${oracle[@]}" --device nope
for option in --model --precision --out --transformers; do
  expect 2 "error[bad-value]: $option needs a value; " "${oracle[@]}" $option ''
done
expect 2 'error[bad-value]: --model gpt2-tiny,: an item' "${oracle[@]}" --model gpt2-tiny,
expect 2 'error[bad-value]: --precision float32,,bf16: an item' "${oracle[@]}" --precision float32,,bf16
expect 3 'error[program-missing]: --transformers /none: ' "${oracle[@]}" --transformers /none
expect 3 'error[program-missing]: --torchvision /none: ' "${oracle[@]}" --torchvision /none
expect 3 'error[output-not-writable]: ' "${oracle[@]}" --out /proc/none
rm "$work/bin/python3"
# It says what it has not compared, and takes missing packages for no difference.
agreeing=$work/agreeing/oracle-venv
mkdir -p "$agreeing/bin" "$work/agreeing/bin"
cp "$root/scripts/oracle/requirements.txt" "$agreeing/installed.txt"
printf '#!/bin/sh\nexit 0\n' >"$agreeing/bin/python"
# shellcheck disable=SC2016  # the stand-in expands it
printf '#!/bin/sh\ncase $1 in */custom_check.py) exit 77 ;; esac\n' >"$agreeing/bin/no-torch"
cp "$agreeing/bin/python" "$work/agreeing/bin/trainwatt-train"
chmod +x "$agreeing"/bin/* "$work/agreeing/bin/trainwatt-train"
oracle=("$root/scripts/check-oracle" --build "$work/agreeing" --model gpt2-tiny --precision float32)
expect 0 'PASS: 1 exported' "${oracle[@]}"
expect 0 'add --transformers PYTHON' "${oracle[@]}"
expect 0 'add --torchvision PYTHON' "${oracle[@]}" --transformers "$agreeing/bin/python"
expect 3 'error[packages-missing]: ' "${oracle[@]}" --transformers "$agreeing/bin/no-torch"
# gpu-validate takes no empty value for "all".
for option in --models --only --budget; do expect 2 "error[bad-value]: $option needs a value; " "$root/scripts/gpu-validate" $option ''; done
for value in inf nan; do expect 2 'error[bad-value]: --budget ' "$root/scripts/gpu-validate" --out "$work/none" --budget $value; done
expect 2 "error[unknown-name]: unknown piece ''" "$root/scripts/gpu-validate" --only facts,

# ---- the scripts for Slurm, outside of it; tests/e2e/slurm_test.py has those inside ----
for name in train sweep; do
  script=$root/scripts/slurm/$name.sbatch
  expect 2 "$name.sbatch: error[not-a-slurm-job]: " env -u SLURM_JOB_ID "$script"
  # What it does, an example that can be called, options and variables; nothing is started, not in a job's shell either.
  for said in 'as a Slurm job' "$script --" '--repeat N ' TRAINWATT_LAUNCHER SLURM_MPI_TYPE TRAINWATT_BIN TRAINWATT_ROOT; do
    expect 0 "$said" env -u SLURM_JOB_ID "$script" --help
    expect 0 "$said" env SLURM_JOB_ID=1 "$script" --help
  done
  if grep -qE '^#|SBATCH|launch once' "$work/output"; then
    echo "$name.sbatch --help prints more than its help"
    failures=$((failures + 1))
  fi
done
expect 2 'error[unknown-command]: ' "$root/scripts/slurm/launch" twice
expect 3 'error[not-a-slurm-job]: SLURM_JOB_ID ' env -u SLURM_JOB_ID "$root/scripts/slurm/launch" once --model gpt2-tiny
# shellcheck disable=SC2016  # the stand-ins expand these
{
  stand_in mpirun '[ "$1" != --version ] || exit 0; shift 2; exec "$@"'
  stand_in trainwatt-train 'echo "asked for $*"'
  stand_in scontrol 'exit 0'
}
in_job=(env SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n SLURM_NTASKS=1 SLURM_TASKS_PER_NODE=1 SLURM_CPUS_ON_NODE=1
  TRAINWATT_BIN="$work/bin" TRAINWATT_LAUNCHER=mpirun "$root/scripts/slurm/launch")
stand_in trainwatt 'exit 1'
expect 0 'asked for --suite quick --dry-run' "${in_job[@]}" once --suite quick --out "$work/none" --dry-run
# Variables that are not as Slurm sets them.
for wrong in SLURM_TASKS_PER_NODE=x SLURM_TASKS_PER_NODE=0 SLURM_CPUS_ON_NODE=x SLURM_NTASKS=08 SLURM_CPUS_PER_TASK=x SLURM_RESTART_COUNT=x; do
  expect 2 "error[bad-value]: ${wrong%=*} takes a number of at least" "${in_job[@]:0:8}" "$wrong" "${in_job[8]}" once --dry-run
done
expect 0 'asked for --dry-run' "${in_job[@]:0:8}" 'SLURM_TASKS_PER_NODE=4(x2),3' SLURM_CPUS_PER_TASK=2 "${in_job[8]}" once --dry-run
expect 3 'error[not-a-slurm-job]: SLURM_ARRAY_TASK_ID is not set' "${in_job[@]:0:8}" SLURM_ARRAY_JOB_ID=7 "${in_job[8]}" once
for name in train sweep; do
  expect 3 'error[not-a-slurm-job]: SLURM_ARRAY_TASK_ID is not set' "${in_job[@]:0:8}" SLURM_ARRAY_JOB_ID=7 TRAINWATT_ROOT="$root" \
    "$root/scripts/slurm/$name.sbatch" --dry-run
done
# srun that cannot reach Slurm, and one without this MPI. Open MPI lets root start ranks only if it is told so.
stand_in srun "echo 'srun: error: fetch_config: DNS SRV lookup failed' >&2; exit 1"
by_srun=("${in_job[@]:0:7}" "${in_job[8]}" once --dry-run)
expect 3 'error[program-fails]: srun fails on this node: srun: error: fetch_config' "${by_srun[@]}"
stand_in srun "printf 'MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n'"
expect 3 'error[launcher-mismatch]: srun does not support --mpi=pmix here, only: MPI plugin types are... none pmi2' "${by_srun[@]}"
rm "$work/bin/srun"
# shellcheck disable=SC2016  # the stand-in expands it
stand_in trainwatt-train 'echo "allowed: $OMPI_ALLOW_RUN_AS_ROOT"'
expect 0 'allowed: 1' env -u OMPI_ALLOW_RUN_AS_ROOT "${in_job[@]}" once --dry-run
# A run that is stopped after a point: requeued if it exits with 5, not if its settings could not be restored.
for code in 3 5; do
  stand_in trainwatt-train "trap '' USR1; mkdir -p $work/run$code; echo {} >$work/run$code/records.jsonl
kill -USR1 \$PPID; sleep 0.2; exit $code"
  said='is requeued'
  if [ $code = 3 ]; then said='launch 1 on n'; fi
  expect $code "$said" "${in_job[@]}" requeue --out "$work/run$code"
  if [ $code = 3 ] && grep -q 'is requeued' "$work/output"; then
    echo "launch requeues a job that exited with 3"
    failures=$((failures + 1))
  fi
done
# A launch without a point, after others with points, is requeued once; the next one without a point ends the job.
stand_in trainwatt-train "trap '' USR1; kill -USR1 \$PPID; sleep 0.2; exit 5"
stand_in scontrol "echo \"\$*\" >>$work/asked; exit 0"
expect 5 'is requeued' "${in_job[@]}" requeue --resume "$work/run5"
expect 0 'requeue 1' cat "$work/asked"
expect 5 'error[interrupted]: this launch finished no point' "${in_job[@]}" requeue --resume "$work/run5"
expect 2 'error[options-conflict]: ' "${in_job[@]}" once --out "$work/one" --resume="$work/other"
expect 2 'error[bad-value]: ' "${in_job[@]}" once --out
expect 2 'error[unknown-name]: ' env "${in_job[@]:1:6}" TRAINWATT_LAUNCHER=rsh "$root/scripts/slurm/launch" once
# repeat names the option that was given, and what is missing of the plan.
for option in --repeat= --repeat --config= --config --out --resume=; do
  expect 2 "error[bad-value]: ${option%=} needs a value; " env -C "$work" "$root/scripts/repeat" 2 -- trainwatt-train $option
done
expect 2 "error[bad-value]: --config needs a value, not '--dry-run'" env -C "$work" "$root/scripts/repeat" -- trainwatt-train --config --dry-run
mkdir -p "$work/series/run-1"
for words in '' '--steps 3' '--out series'; do
  # shellcheck disable=SC2086  # two words
  expect 2 'error[no-model]: ' env -C "$work" "$root/scripts/repeat" 2 -- trainwatt-train $words
done
if [ -e "$work/out" ]; then echo "repeat leaves a folder of a wrong call"; failures=$((failures + 1)); fi
stand_in scontrol 'exit 1'
stand_in trainwatt-train "trap '' USR1; echo {} >>$work/run5/records.jsonl; kill -USR1 \$PPID; sleep 0.2; exit 5"
expect 5 'error[not-requeued]: ' "${in_job[@]}" requeue --resume "$work/run5"
stand_in scontrol "echo \"\$*\" >>$work/asked; exit 0"
rm "$work/asked"
# Of an array only the element itself, which has a folder of its own.
mkdir -p "$work/single" && touch "$work/single/run.json"
mkdir -p "$work/array/3" && echo '{}' >"$work/array/3/records.jsonl"
in_array=(env SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3 "${in_job[@]:1}")
expect 5 'job 7_3 is requeued' "${in_array[@]}" requeue --resume "$work/array"
expect 0 'requeue 7_3' cat "$work/asked"
expect 2 'error[bad-folder]: ' "${in_array[@]}" requeue --out "$work/single"
stand_in trainwatt "echo \"\$*\" >$work/asked"
TRAINWATT_BIN=$work/bin "$root/scripts/slurm/epilog.sh"
expect 0 'restore --all' cat "$work/asked"
# The installed epilog finds the program of its own prefix; one that finds none says so in the system log.
mkdir -p "$work/site/bin" "$work/site/share/trainwatt/scripts/slurm"
cp "$root/scripts/slurm/epilog.sh" "$work/site/share/trainwatt/scripts/slurm"
# shellcheck disable=SC2016  # the program expands it
printf '#!/bin/sh\necho "$0 $*" >%s\n' "$work/asked" >"$work/site/bin/trainwatt"
chmod +x "$work/site/bin/trainwatt"
ln -s "$work/site/share/trainwatt/scripts/slurm/epilog.sh" "$work/linked-epilog"
for epilog in "$work/site/share/trainwatt/scripts/slurm/epilog.sh" "$work/linked-epilog"; do
  rm -f "$work/asked"
  env -u TRAINWATT_BIN "$epilog"
  expect 0 "$work/site/bin/trainwatt restore --all" cat "$work/asked"
done
# shellcheck disable=SC2317  # the epilog calls it
logger() { echo "logged: $*"; }
export -f logger
expect 0 "there is no trainwatt in $work/nowhere; set TRAINWATT_BIN in" env TRAINWATT_BIN="$work/nowhere" "$root/scripts/slurm/epilog.sh"
unset -f logger

# ---- check-distributions: the tarball of each release runs on the others, or its C library is said to be too old; its Debian
# packages are installed; the reports are compared ----
mkdir -p "$work/checkout/tests/house"
cp -r "$root/scripts" "$work/checkout/"
stand_in git 'echo 0123abc' # a bare machine has none
# shellcheck disable=SC2016  # the stand-in expands it
printf '%s\n' '#!/bin/bash' 'suite=$2 folder=$3' 'echo "$suite ${folder##*/} ${*: -1}" >>"$0.calls"' 'mkdir -p "$folder/root"' \
  'case $suite:$* in' \
  '  *scripts/quickstart) mkdir -p "$folder/root/trainwatt/out/quick-1"; echo "$suite" >"$folder/root/trainwatt/out/quick-1/report.json" ;;' \
  '  *scripts/package*) mkdir -p "$folder/root/packed"; touch "$folder/root/packed/t.tar.gz" ;;' \
  '  *cpack*) echo "$suite" >"$folder/root/packed/t.deb" ;;' \
  '  *ensure_packages\ /packed/*) grep -qx "$suite" "$folder/root/packed/t.deb" || exit 1 ;;' \
  '  *compare*) ! grep -qx "$suite" "$folder"/root/of-debian1[23].json || exit 1 ;;' \
  "  bookworm:*debian13) echo \"libc.so.6: version 'GLIBC_2.38' not found\"; exit 1 ;;" \
  '  trixie:*scripts/test*) [ ! -e "$0.fails" ] || exit 1 ;;' 'esac' 'echo "done | all"' >"$work/checkout/tests/house/bare_root.sh"
chmod +x "$work/checkout/tests/house/bare_root.sh"
check=("$work/checkout/scripts/check-distributions" --work "$work/roots" debian12 debian13)
expect 0 '| debian13 | tarball of debian12 | 0 |' "${check[@]}"
expect 0 '| debian12 | tarball of debian13 | 1 |' "${check[@]}"
expect 0 'not possible: the C library of debian12' "${check[@]}"
expect 0 '| debian13 | Debian packages | 0 |' "${check[@]}"
expect 0 '| debian12 | comparison with debian13 | 0 |' "${check[@]}"
expect 0 '| done \| all |' "${check[@]}"
expect 0 ', commit 0123abc, ' "${check[@]}"
for called in 'trixie debian13-bare debian12' 'trixie debian13 debian12=/of-debian12.json'; do
  expect 0 "$called" cat "$work/checkout/tests/house/bare_root.sh.calls"
done
touch "$work/checkout/tests/house/bare_root.sh.fails"
expect 1 '| debian13 | scripts/test | 1 |' "${check[@]}"
expect 2 'error[unknown-name]: ' "${check[0]}" debian11
# What is wrong with the call is said before the head of the table, and before anything is made.
mv "$work/checkout/tests/house/bare_root.sh.calls" "$work/calls"
expect 2 'error[bad-value]: --work needs a value; ' "${check[0]}" --work '' debian12
expect 2 'error[bad-value]: --work needs a value; ' "${check[0]}" --work= debian12
expect 2 "error[duplicate-value]: debian12 is given twice" "${check[@]}" debian12
expect 3 'error[output-not-writable]: ' "${check[0]}" --work /proc/none debian12
if grep -q '|' "$work/output" || [ -e "$work/checkout/tests/house/bare_root.sh.calls" ]; then
  echo "check-distributions starts although its call is wrong"
  failures=$((failures + 1))
fi
rm "$work/bin/git"

finish_cases
