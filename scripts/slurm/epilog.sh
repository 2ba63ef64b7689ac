#!/bin/bash
# Example epilog: restores clocks and power limits left by a killed run, even if its guardian was killed too. In slurm.conf, name
# the installed file, Epilog=/opt/tw/share/trainwatt/scripts/slurm/epilog.sh, or a copy of it.
#
# The program is the one in TRAINWATT_BIN; else the one of the installation that this file lies in; else the first in /usr/local/bin
# and /usr/bin. For a copy elsewhere, such as /etc/slurm/trainwatt-epilog.sh, set TRAINWATT_BIN below.
#
# Slurm calls it as root on each node of an ended job, without a usable PATH. A site's programs are run from the paths in the
# run's journal (power/knob/site.hpp). --all also restores the settings of runs that are still alive, which on nodes with one
# job are strays. Remove --all if jobs share nodes. Settings that cannot be restored are logged to the system log. Exiting with
# 1 instead of 0 would drain the node.
#TRAINWATT_BIN=/opt/tw/bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
problem() { logger -t trainwatt-epilog -p user.err -- "job ${SLURM_JOB_ID:-?}: settings were not restored: $1"; }
here=$(dirname "$(readlink -f "$0")")
folders=("${here%/share/trainwatt/scripts/slurm}/bin" /usr/local/bin /usr/bin)
if [ -n "${TRAINWATT_BIN:-}" ]; then folders=("$TRAINWATT_BIN"); fi
program=''
for folder in "${folders[@]}"; do
  if [ -z "$program" ] && [ -x "$folder/trainwatt" ]; then program=$folder/trainwatt; fi
done
if [ -z "$program" ]; then
  problem "error[program-missing]: there is no trainwatt in ${folders[*]}; set TRAINWATT_BIN in $0 to the folder of the programs"
elif ! found=$("$program" restore --all 2>&1); then
  problem "$found"
fi
exit 0
