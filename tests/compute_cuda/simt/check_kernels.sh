#!/usr/bin/env bash
# check_kernels.sh ROOT RECORDS PROGRAM…: every __global__ function of models/compute/cuda, and every instance of it that is
# compiled, was launched by a test on the CPU. RECORDS holds one file for each program run (simt.cpp), lines "ran NAME" or
# "idle NAME"; files older than one of the programs are from another build. And a kernel whose row of occupancy.def assumes
# several blocks on an SM demands them of the compiler, on every architecture.
set -euo pipefail
root=$(cd "$1" && pwd) records=$2
shift 2
newer=()
for program; do newer+=(-newer "$program"); done
problems=''
problem() { problems+="$1"$'\n'; }

recorded=$(find "$records" -type f "${newer[@]}" -exec cat {} +)
[ -n "$recorded" ] || problem "$records: no run was recorded"
ran=$(printf '%s\n' "$recorded" | sed -n 's/^ran tw::models::cuda:://p' | sort -u)
idle=$(printf '%s\n' "$recorded" | sed -n 's/^idle tw::models::cuda:://p' | sort -u)

mapfile -t sources < <(find "$root/models/compute/cuda" -name '*.cu' -o -name '*.cuh' | sort)
found=0
for source in "${sources[@]}"; do
  text=$(sed 's|//.*||' "$source" | tr '\n' ' ' | sed -E 's/__launch_bounds__ *\([^)]*\)//g')
  marks=$({ grep -o '__global__' <<<"$text" || true; } | wc -l)
  names=$(grep -oE '__global__ +void +[A-Za-z_0-9]+ *\(' <<<"$text" | sed -E 's/ *\($//; s/.* //') || names=''
  if [ "$marks" != "$(grep -c . <<<"$names")" ]; then
    problem "${source#"$root"/}: a __global__ function is not written as '__global__ void name('"
  fi
  for name in $names; do
    found=$((found + 1))
    grep -qE "^$name(<|$)" <<<"$ran" || problem "${source#"$root"/}: no test launches $name on the CPU"
  done
done
[ "$found" -gt 0 ] || problem "models/compute/cuda: no kernel was found"
bounds=$(cat "${sources[@]}" | sed 's|//.*||' | tr -s '\n ' ' ')
demanding=0
while IFS=', ' read -r name _ blocks _; do
  [ "$blocks" -gt 1 ] || continue
  demanding=$((demanding + 1))
  grep -qE "__launch_bounds__\([^)]*occupancy::$name\.blocks\) $name\(" <<<"$bounds" ||
    problem "occupancy.def: $name assumes $blocks blocks on an SM, but its __launch_bounds__ does not demand them"
done < <(sed -n 's/^TW_KERNEL(//p' "$root/models/compute/cuda/kernels/occupancy.def")
[ "$demanding" -gt 0 ] || problem "occupancy.def: no kernel assumes several blocks on an SM"
while IFS= read -r instance; do
  problem "no test launches $instance on the CPU"
done < <(comm -13 <(printf '%s\n' "$ran") <(printf '%s\n' "$idle") | grep .)

if [ -n "$problems" ]; then
  printf '%s' "$problems"
  exit 1
fi
printf '%s kernels, %s instances of them: all were launched\n' "$found" "$(grep -c . <<<"$ran")"
