#!/bin/sh
# What the container starts: the variables that AIO Sandbox's deployments set become settings of Sandglass (docs/aio.md),
# then the server takes this process's place. A setting that is given by its own name wins.
set -eu

# The volume /usr outlives the image that it was filled from, if Compose makes the container anew. Then it is filled again,
# from the image below the mounts; programs of the image do that, since those in the volume are what changes. The copy takes
# its place by a few renames, the mark is last: what ends before or behind them is done again at the next start.
refill='set -e; cd /mnt; rm -rf .new .old; mkdir .new .old; cp -a /usr/. .new/; rm -f sandglass.build .new/sandglass.build
for n in *; do mv "$n" .old/; [ ! -e ".new/$n" ] || mv ".new/$n" .; done; mv .new/* . 2>/dev/null || :
cp /etc/sandglass.build .; rm -rf .new .old'
if [ -n "${container-}" ] && [ -f /etc/sandglass.build ] && ! cmp -s /etc/sandglass.build /usr/sandglass.build; then
    echo "entrypoint: the volume /usr is of another image; filling it from this one"
    mkdir -p /run/image
    if mount --bind / /run/image && mount --bind /usr /run/image/mnt && chroot /run/image sh -c "$refill"; then
        umount /run/image/mnt /run/image
        exec "$0" "$@"
    fi
    echo "entrypoint: could not fill it; make the container with a new one: docker compose up -V" >&2
    exit 1
fi

# as NAME SETTING: an unset or empty variable changes nothing. A value may be quoted: AIO's own compose file has quotes in
# its default of WORKSPACE, and Compose leaves them there.
as() {
    eval "value=\${$1-} given=\${$2+yes}"
    case $value in
    '"'*'"'*'"' | "'"*"'"*"'") ;; # several words, each in quotes
    '"'*'"' | "'"*"'") value=${value#?} value=${value%?} ;;
    esac
    if [ -n "$value" ] && [ -z "$given" ]; then
        export "$2=$value"
    fi
}

as TZ SANDGLASS_BOX_TIMEZONE
as WORKSPACE SANDGLASS_BOX_WORKSPACE
as PROXY_SERVER SANDGLASS_BOX_PROXY
as HOMEPAGE SANDGLASS_BROWSER_HOMEPAGE
as BROWSER_EXTRA_ARGS SANDGLASS_BROWSER_ARGS
as DNS_OVER_HTTPS_TEMPLATES SANDGLASS_BROWSER_DNS_OVER_HTTPS
as WAIT_PORTS SANDGLASS_READY_PORTS

# A box's /dev/shm is as large as the container's (shm_size).
shm=$(df -k --output=size /dev/shm 2>/dev/null | tail -n 1 | tr -d ' ')
if [ -n "$shm" ] && [ -z "${SANDGLASS_BOX_SHM+yes}" ]; then
    export SANDGLASS_BOX_SHM="${shm}k"
fi

# What the deployment mounts below the home directory (volumes: ...:/home/gem/project) is there in the default box, too.
mounts=$(awk '$5 ~ "^/home/gem/[^\\\\:]*$" { printf "%s%s", sep, $5; sep = ":" }' /proc/self/mountinfo 2>/dev/null)
if [ -n "$mounts" ] && [ -z "${SANDGLASS_BOX_MOUNTS+yes}" ]; then
    export SANDGLASS_BOX_MOUNTS="$mounts" SANDGLASS_MOUNT_ROOTS="${SANDGLASS_MOUNT_ROOTS:+$SANDGLASS_MOUNT_ROOTS:}$mounts"
fi

# A container's port is published by whoever runs it, so the server listens on all of its addresses. It asks for a token if
# there is a key to check one with; without one, who may reach the port was decided where the port was published.
if [ -n "${container-}" ]; then # the image sets it
    : "${SANDGLASS_LISTEN:=0.0.0.0:8080}"
    if [ -z "${SANDGLASS_AUTH+yes}" ] && [ -z "${JWT_PUBLIC_KEY-}${SANDBOX_API_KEY-}" ]; then
        SANDGLASS_AUTH=open-to-everyone
        export SANDGLASS_AUTH
    fi
    # The host's control groups are seen by all its containers: each has a name of its own there.
    : "${SANDGLASS_CGROUP_NAME:=sandglass-$(hostname | tr -c 'A-Za-z0-9\n' -)}"
    # Boxes cannot outlive the container, so the server does not leave them to a next one.
    : "${SANDGLASS_SHUTDOWN_KILL:=true}"
    export SANDGLASS_LISTEN SANDGLASS_CGROUP_NAME SANDGLASS_SHUTDOWN_KILL
fi

exec "${SANDGLASS:-sandglass}" serve "$@"
