#!/bin/sh
# Installs JupyterLab, which Debian 12 does not have, from PyPI to where boxes find it: a virtual environment of Debian's
# Python with the server alone. Kernels are Debian's, so a notebook sees the modules that every other program of a box sees.
# Needs root and python3-venv; `rm -r /usr/local/lib/jupyterlab` undoes it, and /jupyter is Debian's notebook again.
set -eu
version=4.4.10
place=/usr/local/lib/jupyterlab

say() { echo "jupyterlab: $*" >&2; }
[ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || { say "needs Debian's python3-venv"; exit 1; }
[ -e /usr/share/jupyter/kernels/python3 ] || { say "needs Debian's python3-ipykernel, whose kernel it starts"; exit 1; }
have=$(cat $place/version 2>/dev/null || true)
if [ "$have" = "$version $(/usr/bin/python3 --version)" ]; then
    say "$version is there already"
    exit 0
fi
mkdir -p "$(dirname $place)" && [ -w "$(dirname $place)" ] || { say "cannot write to $(dirname $place): run it as root"; exit 1; }

# A virtual environment knows its own path: it is made in place, and is whole when its version is written.
rm -rf "$place"
trap 'rm -rf "$place"' INT TERM
log=$(mktemp)
step() { say "$1"; shift; "$@" >>"$log" 2>&1 || { tail -5 "$log" >&2; rm -rf "$place" "$log"; say "failed"; exit 1; }; }
step "making an environment" /usr/bin/python3 -m venv "$place"
step "fetching $version" "$place/bin/pip" install --quiet --disable-pip-version-check --no-input "jupyterlab==$version"
rm -rf "$place/share/jupyter/kernels"
mkdir -p "$place/share/jupyter/lab/settings" # no question about news from outside
echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' >"$place/share/jupyter/lab/settings/overrides.json"
step "trying it" "$place/bin/jupyter-lab" --version
chmod -R a+rX "$place"
echo "$version $(/usr/bin/python3 --version)" >"$place/version"
rm -f "$log"
say "$version is in $place ($(du -sh "$place" | cut -f1)); boxes that are made from now on have it at /jupyter"
