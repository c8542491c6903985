#!/bin/bash
# The container image, with a dockerd of this test's own: builds it, starts it with the flags of docker-compose.yaml, and
# checks what docs/install.md says of it. Nothing is pulled: BASE is made by mmdebstrap from Debian's packages, or taken from
# DOCKER_BASE (a tar of a Debian 12). The last line is "N passed, N failed"; a machine that cannot run dockerd skips, and says why.
set -u
cd "$(dirname "$0")/../.." || exit 2
dir=$(mktemp -d /var/tmp/sg-docker.XXXXXX)
export DOCKER_HOST=unix://$dir/sock DOCKER_BUILDKIT=0
passed=0 failed=0 dockerd=

skip() {
    echo "docker: SKIPPED: $*"
    echo "docker: 0 passed, 0 failed, 1 skipped"
    exit 0
}

end() {
    local mount
    if [ -n "$dockerd" ]; then
        docker ps -aq 2>/dev/null | xargs -r docker rm -fv >/dev/null 2>&1
        kill "$dockerd"
        wait "$dockerd" 2>/dev/null
    fi
    awk -v d="$dir/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do umount -l "$mount"; done
    rm -rf "$dir"
}
trap end EXIT

check() { # promise, command
    local promise=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok      $promise"
    else
        failed=$((failed + 1))
        echo "FAILED  $promise"
    fi
}

[ "$(id -u)" = 0 ] || skip "needs root"
command -v dockerd >/dev/null && command -v docker >/dev/null || skip "no dockerd here (apt-get install docker.io)"
[ -n "${DOCKER_BASE:-}" ] || command -v mmdebstrap >/dev/null || skip "no mmdebstrap here (apt-get install mmdebstrap), and no DOCKER_BASE"

dockerd --data-root "$dir/data" --exec-root "$dir/exec" -p "$dir/pid" -H "unix://$dir/sock" --iptables=false --bridge=none \
    --storage-driver overlay2 >"$dir/log" 2>&1 &
dockerd=$!
for _ in $(seq 300); do
    docker version >/dev/null 2>&1 && break
    kill -0 "$dockerd" 2>/dev/null || { tail -n 3 "$dir/log"; dockerd=; skip "dockerd does not start"; }
    sleep 0.2
done

base=${DOCKER_BASE:-$dir/base.tar}
if [ -z "${DOCKER_BASE:-}" ]; then
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,curl,python3-minimal,nftables,iproute2 bookworm "$base" \
        >"$dir/base.log" 2>&1 || { tail -n 3 "$dir/base.log"; skip "no base image: mmdebstrap could not fetch Debian"; }
fi
docker import "$base" sgbase >/dev/null || exit 1
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | docker build --network host -q -t sandglass \
    --build-arg BASE=sgbase --build-arg DEPS=build - >"$dir/build.log" 2>&1
check "the image is built from the Dockerfile" test $? = 0 || { tail -n 20 "$dir/build.log"; exit 1; }

# By number: the network is the host's, since this dockerd has no bridge.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
seccomp="--security-opt seccomp=unconfined"
paths="--security-opt systempaths=unconfined"
caps="--cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add NET_ADMIN"
groups="-v /sys/fs/cgroup:/sys/fs/cgroup:rw --cgroupns=host"

doctor() { docker run --rm --network host --entrypoint sandglass "$@" sandglass doctor 2>&1; }
says() { grep -qF -- "$1" <<<"$words" || { grep -E 'NEEDED|missing' <<<"$words" | head -n 8; false; }; }

# shellcheck disable=SC2086 -- flags are words
{
    words=$(doctor $seccomp)
    check "without CAP_SYS_ADMIN there are no boxes, and doctor says it" says "run as root with CAP_SYS_ADMIN"
    words=$(doctor $seccomp $caps $groups)
    check "with /proc/sys read-only doctor says what is in the way" says "forbid nested user namespaces: Read-only file system"
    words=$(doctor $seccomp $caps $paths)
    check "without the host's control groups doctor says that there are no limits" says "boxes would have no limits"
    words=$(doctor $seccomp $caps $paths $groups)
    check "with the flags of docker-compose.yaml a box is made" says "ok      make a box"

    docker run -d --name sg --network host --shm-size 96m $seccomp $caps $paths $groups -e TZ=Asia/Singapore -e WORKSPACE=/srv/work \
        -e SANDGLASS_LISTEN="127.0.0.1:$port" sandglass >/dev/null
}
ready() { for _ in $(seq 300); do curl -sf "$url/ready" >/dev/null && return 0; sleep 0.2; done; docker logs sg | tail -n 20; return 1; }
check "the server gets ready" ready

post() { curl -s -m 120 "$url$1" -H 'Content-Type: application/json' -d "$2"; }
run() { post /api/v1/execute "{\"worker_id\": \"w\", \"action\": \"bash:run\", \"params\": {\"command\": \"$1\"}}"; }
gives() { # JSON on stdin holds the text
    local got
    got=$(cat)
    grep -qF -- "$1" <<<"$got" || { echo "$got" | head -c 600; echo; false; }
}
check "a command runs in a box" gives '"stdout":"42\n"' < <(run 'echo $((6 * 7))')
check "the box has a root of its own, which may change /usr" gives '"stdout":"0\nchanged\n"' < <(run 'sudo id -u; echo changed | sudo tee /usr/local/x')
check "the next box does not see it" gives '"exit_code":2' < <(run 'ls /usr/local/x')
check "TZ, WORKSPACE and shm_size reach the box" gives '"stdout":"+08\n/srv/work\n98304\n"' \
    < <(run 'date +%Z; pwd; df -k --output=size /dev/shm | tail -n 1 | tr -d \" \"')
check "the memory limit holds" gives '"outcome":"oom"' \
    < <(post /api/v1/execute '{"worker_id": "m", "action": "bash:run", "params": {"command": "head -c 3G /dev/zero | tail"}}')
check "AIO's routes answer on the same port" gives '"output":"hi"' < <(post /v1/shell/exec '{"command": "echo hi"}')
box=$(post /sg/v1/boxes '{}' | grep -o '"id":"[^"]*"' | head -n 1 | cut -d'"' -f4)
post "/sg/v1/boxes/$box/execute" '{"tool": "bash:run", "params": {"command": "echo kept > f"}}' >/dev/null
fork=$(post "/sg/v1/boxes/$box/fork" '{"n": 1}' | grep -o '"id":"b-[^"]*"' | tail -n 1 | cut -d'"' -f4)
check "a box is forked with its files" gives '"stdout":"kept\n"' \
    < <(post "/sg/v1/boxes/$fork/execute" '{"tool": "bash:run", "params": {"command": "cat f"}}')
check "a box with a network is made" gives '"network":"full"' < <(post /sg/v1/boxes '{"network": "full"}')
stop() { docker stop -t 30 sg >/dev/null && test "$(docker inspect -f '{{.State.ExitCode}}' sg)" = 0; }
check "the server ends by itself when the container is stopped" stop
check "nothing of it is left in the control groups" bash -c '! find /sys/fs/cgroup -maxdepth 3 -name "b-*" -path "*sandglass-$(docker inspect -f "{{.Config.Hostname}}" sg)*" | grep -q .'

echo "docker: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
