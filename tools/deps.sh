#!/bin/bash
# Installs the Debian packages that are missing, and only those: to build, to run, and with the argument `test` what the
# tests compare with; with `build`, only to build. Nothing here is fatal but a missing compiler or library: what else is
# absent is named, and `sandglass doctor` says what it switches off.
set -u

build=(gcc make pkg-config libhttp-parser-dev libsqlite3-dev libssl-dev zlib1g-dev)
run=(bash python3 python3-ipykernel python3-numpy python3-pandas python3-matplotlib python3-requests python3-sklearn python3-pip python3-venv
     git ripgrep curl poppler-utils build-essential nftables iproute2 faketime
     chromium chromium-headless-shell tigervnc-standalone-server jwm xterm xfonts-base fonts-dejavu-core ffmpeg at-spi2-core python3-gi
     jupyter-notebook)
tests=(python3-pytest clang libclang-rt-14-dev clang-format bubblewrap crun wrk
       python3-fastapi python3-uvicorn python3-uvloop python3-httptools)

say() { echo "deps: $*" >&2; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# A program that came another way (not as a package) counts as well.
present() {
    installed "$1" && return 0
    case $1 in
    gcc | make | pkg-config | bash | git | curl | clang | clang-format | crun | wrk) [ -x "/usr/bin/$1" ] || [ -x "/usr/local/bin/$1" ] ;;
    *) return 1 ;;
    esac
}

missing_of() {
    local p
    for p in "$@"; do present "$p" || echo "$p"; done
}

# What boxes find, not what this shell's PATH finds.
box_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
node_major() { PATH=$box_path node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p'; }
node_fine() { [ "$(node_major)" ] && [ "$(node_major)" -ge 20 ]; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 126
    fi
}

updated=
apt_install() {
    if [ -z "$updated" ]; then
        as_root apt-get -qq update >/dev/null 2>&1
        updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >/dev/null 2>&1
}

# All at once is fast; if one has no candidate, one by one, so that it does not take the others along.
install_packages() {
    [ $# -gt 0 ] || return 0
    say "installing: $*"
    apt_install "$@" && return 0
    local p
    for p in "$@"; do
        apt_install "$p" || say "cannot install $p"
    done
}

# Debian 12 has Node 18. The npm package `node` is the program itself, so that is the way to 20 where the registry
# can be reached; it links /usr/local/bin/node.
install_node() {
    if ! PATH=$box_path command -v node >/dev/null || ! PATH=$box_path command -v npm >/dev/null; then
        install_packages $(missing_of nodejs npm)
    fi
    node_fine && return 0
    if PATH=$box_path command -v npm >/dev/null; then
        say "installing: node 20 (npm package 'node')"
        as_root env PATH=$box_path timeout 300 npm install --global --no-audit --no-fund --loglevel=error node@20 >/dev/null 2>&1
    fi
    node_fine || say "Node 20 or newer could not be installed (found: $(node_major || true)); JavaScript in boxes is off or old"
}

want=("${build[@]}" "${run[@]}")
[ "${1:-}" = test ] && want+=("${tests[@]}")
if [ "${1:-}" = build ]; then
    want=("${build[@]}")
    node_fine() { true; } # not asked for
fi

missing=$(missing_of "${want[@]}")
if [ -n "$missing" ] || ! node_fine; then
    if ! command -v apt-get >/dev/null; then
        say "this is no Debian: please install what corresponds to: ${missing//$'\n'/ } node>=20"
    elif ! as_root true; then
        say "not root, and sudo asks for a password; please run: sudo apt-get install ${missing//$'\n'/ }"
    else
        # shellcheck disable=SC2086 -- one word per package
        install_packages $missing
        node_fine || install_node
    fi
fi

left=$(missing_of "${want[@]}")
[ -z "$left" ] || say "still missing: ${left//$'\n'/ }"

# Only what the build itself needs may stop it.
for p in $(missing_of "${build[@]}"); do
    case $p in
    gcc) command -v cc >/dev/null && continue ;;
    lib* | zlib*) case $p in
        libhttp-parser-dev) header=http_parser.h ;;
        libsqlite3-dev) header=sqlite3.h ;;
        zlib1g-dev) header=zlib.h ;;
        *) header=openssl/evp.h ;;
        esac
        echo "#include <$header>" | ${CC:-cc} -E - >/dev/null 2>&1 && continue ;;
    esac
    say "cannot build without $p"
    exit 1
done
exit 0
