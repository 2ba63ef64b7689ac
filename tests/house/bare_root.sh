#!/usr/bin/env bash
# bare_root.sh [--suite NAME] FOLDER COMMAND…: runs COMMAND in a clone of this commit on a bare Debian 12 (bookworm) or
# NAME (trixie): no compiler, no CUDA, and of this
# machine nothing but its kernel and its network. As root, with debootstrap, bubblewrap and git:
#
#   tests/house/bare_root.sh /var/tmp/bare scripts/quickstart
#   tests/house/bare_root.sh /var/tmp/bare scripts/test --jobs 2
#
# FOLDER is made on the first call and keeps what COMMAND installs and builds: remove it to begin anew. Only what is committed
# is tried. The mirror is this machine's own (/etc/apt). Exit code: COMMAND's, or 3 where there is no such root.
set -euo pipefail
die() {
  printf 'bare_root.sh: %s\n' "$1" >&2
  exit 3
}
suite=bookworm
if [ "${1:-}" = --suite ]; then
  suite=${2:-}
  shift 2
fi
[ $# -ge 2 ] || die "give a folder and a command"
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$1
shift
[ "$(id -u)" = 0 ] || die "debootstrap needs root"
for program in debootstrap bwrap git; do
  command -v "$program" >/dev/null || die "$program is not on PATH: install it (bwrap is in bubblewrap)"
done

mkdir -p "$folder"
root=$(cd "$folder" && pwd)/root
if [ ! -e "$root/etc/debian_version" ]; then
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's,^URIs: *([^ ]+/debian/?)( .*)?$,\1,p; s,^deb (\[[^]]*\] )?([^ ]+/debian/?) .*,\2,p' | sed -n 1p || true)
  [ -n "$mirror" ] || die "no Debian mirror in /etc/apt/sources.list*"
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    die "debootstrap failed; the whole output is in $folder/debootstrap.log"
fi
if [ -d "$root/trainwatt/.git" ]; then
  git -C "$root/trainwatt" fetch -q "$tree" HEAD
  git -C "$root/trainwatt" reset -q --hard FETCH_HEAD
else
  git clone -q --no-hardlinks "$tree" "$root/trainwatt"
fi
exec bwrap --bind "$root" / --proc /proc --dev /dev --ro-bind /sys /sys --perms 1777 --tmpfs /tmp --tmpfs /run \
  --ro-bind /etc/resolv.conf /etc/resolv.conf --unshare-pid --unshare-ipc --die-with-parent --cap-add ALL \
  --clearenv --setenv PATH /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --setenv HOME /root \
  --setenv LC_ALL C.UTF-8 --chdir /trainwatt -- "$@"
