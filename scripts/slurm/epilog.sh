#!/bin/bash
# Example epilog (slurm.conf: Epilog=/etc/slurm/trainwatt-epilog.sh, a copy of this file): restores clocks and power limits
# left by a killed run, even if its guardian was killed too.
#
# Slurm calls it as root on each node of an ended job, without a usable PATH. A site's programs are run from the paths in the
# run's journal (power/knob/site.hpp). --all also restores the settings of runs that are still alive, which on nodes with one
# job are strays. Remove --all if jobs share nodes. Settings that cannot be restored are logged to the system log. Exiting with
# 1 instead of 0 would drain the node.
bin=${TRAINWATT_BIN:-/usr/local/bin}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ -x "$bin/trainwatt" ] || exit 0
if ! found=$("$bin/trainwatt" restore --all 2>&1); then
  logger -t trainwatt-epilog -p user.err -- "job ${SLURM_JOB_ID:-?}: settings were not restored: $found"
fi
exit 0
