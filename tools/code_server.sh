#!/bin/sh
# Installs code-server (VS Code in a browser) from npm to where boxes find it. Its own installer would fetch a program from
# elsewhere and refuse to run as root, so its steps are taken here one by one; ripgrep is Debian's. Needs root, npm, a
# compiler, and some minutes; `rm -r /usr/local/lib/code-server` undoes it.
set -eu
version=4.100.3 # the newest that runs on Node 20
place=/usr/local/lib/code-server
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin # what boxes find, so that modules are built for that Node
export PATH=$path npm_config_yes=true

say() { echo "code-server: $*" >&2; }
need() { command -v "$1" >/dev/null || { say "needs $1 ($2)"; exit 1; }; }
need node 'tools/deps.sh installs it'
need npm 'tools/deps.sh installs it'
need rg "Debian's ripgrep"
need g++ "Debian's build-essential"
if [ "$(cat $place/version 2>/dev/null)" = "$version $(node --version)" ]; then
    say "$version is there already"
    exit 0
fi
mkdir -p "$(dirname $place)" && [ -w "$(dirname $place)" ] || { say "cannot write to $(dirname $place): run it as root"; exit 1; }

stage=$(mktemp -d "$place.XXXXXX")
trap 'rm -rf "$stage"' EXIT INT TERM
log=$stage/install.log
step() { say "$1"; shift; "$@" >>"$log" 2>&1 || { tail -5 "$log" >&2; say "failed"; exit 1; }; }
quiet="--ignore-scripts --no-audit --no-fund --loglevel=error"
code=$stage/node_modules/code-server

# shellcheck disable=SC2086 -- several flags
{
    step "fetching $version" npm install $quiet --prefix "$stage" "code-server@$version"
    cd "$code/lib/vscode"
    step "fetching what its editor needs" npm install $quiet --omit=dev
    (cd extensions && step "and its extensions" npm install $quiet --omit=dev)
}
mkdir -p node_modules/@vscode/ripgrep/bin
cp "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
step "building its modules" npm rebuild node-pty @vscode/spdlog native-watchdog @parcel/watcher
cd "$stage"
step "and its own" npm rebuild argon2
step "trying it" node "$code/out/node/entry.js" --version --config=/dev/null

echo "$version $(node --version)" >"$stage/version"
chmod -R a+rX "$stage"
rm -rf "$place"
mv "$stage" "$place"
trap - EXIT
say "$version is in $place ($(du -sh "$place" | cut -f1)); boxes that are made from now on have /code-server/"
