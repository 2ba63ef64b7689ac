#!/usr/bin/env bash
# check_packages.sh ROOT: what quickstart and test answer where packages are missing, on each distribution, and where programs are too
# old. The real scripts run with stand-ins for dpkg-query, rpm, id, sudo and apt-get on PATH; nothing is installed or built.
set -euo pipefail
root=$(cd "$1" && pwd)
# shellcheck source=tests/house/scripts/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"

# ---- packages: an ordinary user gets the list, root gets apt-get, nobody reinstalls ----
# shellcheck disable=SC2016  # the stand-ins expand these
stand_in dpkg-query 'case "$*" in *libdnnl-dev*|*openmpi-bin*) exit 1;; *) printf installed;; esac'
stand_in apt-get "echo \"\$*\" >>$work/apt; exit 0"
stand_in sudo 'exit 1'
# shellcheck disable=SC2016
stand_in id '[ "$*" = -u ] && echo 1000 || exec /usr/bin/id "$@"'
expect 3 'apt-get install --no-install-recommends openmpi-bin libdnnl-dev' "$root/scripts/quickstart" --build "$work/build"
expect 3 'apt-get install --no-install-recommends openmpi-bin libdnnl-dev' "$root/scripts/test" --build "$work/build"
expect 3 'apt-get update && apt-get install' "$root/scripts/quickstart" --build "$work/build"
expect 3 'error[packages-missing]' "$root/scripts/quickstart" --build "$work/build"
[ ! -e "$work/apt" ] || { echo "apt-get was called for an ordinary user"; failures=$((failures + 1)); }
# shellcheck disable=SC2016  # the inner shell expands it
install='. scripts/lib/common.sh; . scripts/lib/packages.sh; ensure_packages "${program_packages[@]}"'
stand_in id 'echo 0'
expect 0 'Installing openmpi-bin libdnnl-dev' env -C "$root" bash -ec "$install"
expect 0 'install -y --no-install-recommends openmpi-bin libdnnl-dev' cat "$work/apt"
rm "$work/apt"
stand_in dpkg-query 'printf installed'
expect 0 'packages are installed' env -C "$root" bash -ec "$install"
[ ! -e "$work/apt" ] || { echo "apt-get was called although all is there"; failures=$((failures + 1)); }
stand_in dpkg-query 'exit 1'
stand_in apt-get 'echo "E: no network"; exit 100'
expect 3 'E: no network' env -C "$root" bash -ec "$install"
expect 3 "error[packages-missing]: 'apt-get update' failed" env -C "$root" bash -ec "$install"

# ---- other distributions: their own packages and commands; programs that are too old are named with what helps ----
on() { # on NAME "ID=… VERSION_ID=…": the next commands run there
  tr " " "\n" <<<"$2" >"$work/os-$1"
  there=(env -C "$root" TRAINWATT_OS_RELEASE="$work/os-$1")
}
stand_in rpm 'exit 1'
stand_in id 'echo 1000'
on rocky 'ID=rocky ID_LIKE=rhel VERSION_ID=9.4'
expect 3 'dnf config-manager --set-enabled crb && dnf install gcc-c++' "${there[@]}" scripts/quickstart --build "$work/build"
expect 3 'the package list is untried here' "${there[@]}" scripts/quickstart --build "$work/build"
expect 3 'dnf install epel-release dnf-plugins-core && dnf config-manager' "${there[@]}" scripts/quickstart --build "$work/build"
on oracle 'ID=ol ID_LIKE=fedora VERSION_ID=9.4'
expect 3 'dnf install oracle-epel-release-el9 dnf-plugins-core && dnf config-manager --set-enabled ol9_codeready_builder && dnf install gcc-c++' \
  "${there[@]}" scripts/quickstart --build "$work/build"
# Whose packages are others: no list, but what helps with an old g++.
# shellcheck disable=SC2016
facts='. scripts/lib/common.sh; . scripts/lib/packages.sh; echo "$manager $listed $toolset $(newer_compiler)"'
for known in 'dnf no yes install gcc-toolset-13=ID=rocky ID_LIKE=rhel VERSION_ID=8.10' 'dnf no yes install gcc-toolset-13=ID=centos ID_LIKE=rhel VERSION_ID=7' \
  'dnf no no load a module=ID=amzn ID_LIKE=fedora VERSION_ID=2023' 'dnf yes no load a module=ID=rocky ID_LIKE=rhel VERSION_ID=10.0' \
  'dnf yes no load a module=ID=nobara ID_LIKE=fedora VERSION_ID=41' 'dnf yes yes install gcc-toolset-13=ID=centos ID_LIKE=rhel VERSION_ID=9' \
  'zypper no no install the package gcc13=ID=sles ID_LIKE=suse VERSION_ID=12.5' ' no no load a module=ID=arch'; do
  on known "${known#*=}"
  expect 0 "${known%%=*}" "${there[@]}" bash -euc "$facts"
done
on sap 'ID=sles_sap ID_LIKE=suse VERSION_ID=15.6'
expect 3 'SUSEConnect --product PackageHub/15.6' "${there[@]}" scripts/quickstart --build "$work/build"
on broken 'ID=debian VERSION_ID=12 PRETTY_NAME="Deb'
# shellcheck disable=SC2016
expect 0 'said: apt yes' "${there[@]}" bash -euc 'printf "said: "; . scripts/lib/common.sh; . scripts/lib/packages.sh; echo "$manager $tried"'
on named 'ID=debian VERSION_ID=12 NAME=Leaky VERSION=leaked'
# shellcheck disable=SC2016  # the inner shell expands it
expect 0 'apt yes - -' "${there[@]}" NAME=- VERSION=- bash -euc '. scripts/lib/common.sh; . scripts/lib/packages.sh
  echo "$manager $tried $NAME $VERSION"'
on newest 'ID=debian VERSION_ID=13'
# shellcheck disable=SC2016
expect 0 'apt yes' "${there[@]}" bash -euc '. scripts/lib/common.sh; . scripts/lib/packages.sh; echo "$manager $tried"'
on next 'ID=debian VERSION_ID=14'
# shellcheck disable=SC2016
expect 0 'apt no' "${there[@]}" bash -euc '. scripts/lib/common.sh; . scripts/lib/packages.sh; echo "$manager $tried"'
on rhel 'ID=rhel ID_LIKE=fedora VERSION_ID=9.4'
enabled="subscription-manager repos --enable codeready-builder-for-rhel-9-$(uname -m)-rpms"
expect 3 "  $enabled && dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-9.noarch.rpm && dnf install gcc-c++" \
  "${there[@]}" scripts/quickstart --build "$work/build"
on fedora 'ID=fedora VERSION_ID=41'
expect 3 '  dnf install gcc-c++ cmake' "${there[@]}" scripts/quickstart --build "$work/build"
on leap 'ID=opensuse-leap ID_LIKE=suse VERSION_ID=15.6'
expect 3 '  zypper install --no-recommends gcc13-c++' "${there[@]}" scripts/quickstart --build "$work/build"
on sles 'ID=sles VERSION_ID=15.6'
expect 3 "  SUSEConnect --product PackageHub/15.6/$(uname -m) && zypper install" "${there[@]}" scripts/quickstart --build "$work/build"
expect 3 'zypper install --no-recommends gcc13-c++' "${there[@]}" scripts/quickstart --build "$work/build"
on ubuntu 'ID=ubuntu ID_LIKE=debian VERSION_ID=22.04'
expect 3 'apt-get update && apt-get install' "${there[@]}" scripts/quickstart --build "$work/build"
stand_in cmake 'echo "cmake version 3.22.1"'
expect 3 'error[program-too-old]: cmake 3.22.1 is too old' "${there[@]}" scripts/quickstart --no-install --build "$work/build"
stand_in cmake 'echo "error while loading shared libraries" >&2; exit 127'
expect 3 "error[program-fails]: '$work/bin/cmake --version' prints no version" "${there[@]}" scripts/quickstart --no-install \
  --build "$work/build"
rm "$work/bin/cmake"
stand_in c++ 'echo "Debian clang version 14.0.6"'
expect 3 'error[program-too-old]: c++ is clang 14.0.6, too old (16 or later)' "${there[@]}" scripts/quickstart --no-install --build "$work/build"
stand_in c++ 'echo "Debian clang version 16.0.6"'
# shellcheck disable=SC2016  # the inner shell expands it
expect 0 'new enough' "${there[@]}" bash -euc '. scripts/lib/common.sh; . scripts/lib/packages.sh; need_versions; echo "new enough"'
# shellcheck disable=SC2016  # the stand-in expands it
stand_in c++ '[ "$1" = --version ] && echo "g++ 11.4.0" || echo 11.4.0'
expect 3 'CXX=g++-12' "${there[@]}" scripts/quickstart --no-install --build "$work/build"
on rocky 'ID=rocky ID_LIKE=rhel VERSION_ID=9.4'
expect 3 'gcc-toolset-13/enable' "${there[@]}" scripts/quickstart --no-install --build "$work/build"
# shellcheck disable=SC2016  # the stand-in expands it
stand_in c++ '[ "$1" = --version ] && echo "g++ 7.5.0" || echo 7.5.0'
on sles 'ID=sles VERSION_ID=15.6'
expect 3 'error[program-too-old]: c++ is g++ 7.5.0, too old (12 or later): ' "${there[@]}" scripts/quickstart --no-install --build "$work/build"
for said in 'gcc13-c++' ' g++-13 ' 'CXX=g++-13 CC=gcc-13'; do
  expect 3 "$said" "${there[@]}" scripts/quickstart --no-install --build "$work/build"
done
# shellcheck disable=SC2016  # the stand-in expands it
stand_in g++-13 '[ "$1" = --version ] && echo "g++-13 (SUSE Linux) 13.3.0" || echo 13.3.0'
# shellcheck disable=SC2016  # the inner shell expands it
expect 0 'new enough' "${there[@]}" CXX=g++-13 bash -euc '. scripts/lib/common.sh; . scripts/lib/packages.sh; need_versions; echo "new enough"'
on named_rocky 'ID=rocky ID_LIKE=rhel VERSION_ID=9.4 PRETTY_NAME=Rocky'
expect 3 '1 install missing packages of Rocky (as root' "${there[@]}" scripts/quickstart --build "$work/build"
on unknown 'ID=nixos'
expect 3 'has no package list here' "${there[@]}" scripts/quickstart --build "$work/build"
rm "$work/bin/c++"

# ---- packages whose mpirun is not on PATH at once, or whose compiler has another name ----
mkdir "$work/few"
for program in sed basename uname; do ln -s "$(type -P $program)" "$work/few/"; done
# shellcheck disable=SC2016  # the inner shell expands it
need_mpirun='. scripts/lib/common.sh; . scripts/lib/packages.sh; PATH=$1; need_programs mpirun'
on rocky 'ID=rocky ID_LIKE=rhel VERSION_ID=9.4'
expect 3 "not on PATH: mpirun; load the modules" "${there[@]}" bash -euc "$need_mpirun" bash "$work/few"
expect 3 "module load mpi/openmpi-$(uname -m)" "${there[@]}" bash -euc "$need_mpirun" bash "$work/few"
on sles 'ID=sles VERSION_ID=15.6'
expect 3 'openmpi4/bin/mpivars.sh' "${there[@]}" bash -euc "$need_mpirun" bash "$work/few"
expect 3 'set CXX=g++-13 CC=gcc-13' "${there[@]}" bash -euc "${need_mpirun/need_programs mpirun/need_programs c++}" bash "$work/few"

finish_cases
