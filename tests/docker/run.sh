#!/bin/bash
# The container image, with a dockerd of this test's own: builds it, starts it with the flags of docker-compose.yaml and, if
# Docker Compose 2 is here, builds and starts it by that file, and checks what docs/install.md says of it. Nothing is pulled:
# BASE is made by mmdebstrap from Debian's packages, or taken from DOCKER_BASE (a tar of a Debian 12); DOCKER_DEPS= makes the
# full image.
# The last line is "N passed, N failed"; a machine that cannot run dockerd skips, and says why.
set -u
cd "$(dirname "$0")/../.." || exit 2
dir=$(mktemp -d /var/tmp/sg-docker.XXXXXX)
export DOCKER_HOST=unix://$dir/sock DOCKER_BUILDKIT=0
passed=0 failed=0 skipped=0 dockerd= slirp=

skip() {
    echo "docker: SKIPPED: $*"
    echo "docker: 0 passed, 0 failed, 1 skipped"
    exit 0
}

end_dockerd() {
    [ -z "$slirp" ] || { kill "$slirp"; slirp=; }
    kill "$dockerd"
    wait "$dockerd" 2>/dev/null
    dockerd=
}

end() {
    local mount
    if [ -n "$dockerd" ]; then
        docker ps -aq 2>/dev/null | xargs -r docker rm -fv >/dev/null 2>&1
        end_dockerd
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
        return 1
    fi
}

[ "$(id -u)" = 0 ] || skip "needs root"
command -v dockerd >/dev/null && command -v docker >/dev/null || skip "no dockerd here (apt-get install docker.io)"
[ -n "${DOCKER_BASE:-}" ] || command -v mmdebstrap >/dev/null || skip "no mmdebstrap here (apt-get install mmdebstrap), and no DOCKER_BASE"

start_dockerd() { # words before the command, -- , its further flags
    local before=()
    while [ "$1" != -- ]; do before+=("$1"); shift; done
    shift
    "${before[@]}" dockerd --data-root "$dir/data" --exec-root "$dir/exec" -p "$dir/pid" -H "unix://$dir/sock" --storage-driver overlay2 "$@" \
        >"$dir/log" 2>&1 &
    dockerd=$!
    for _ in $(seq 300); do
        docker version >/dev/null 2>&1 && return 0
        kill -0 "$dockerd" 2>/dev/null || { tail -n 3 "$dir/log"; dockerd=; return 1; }
        sleep 0.2
    done
    return 1
}
start_dockerd -- --iptables=false --bridge=none || skip "dockerd does not start" # builds with the host's network

base=${DOCKER_BASE:-$dir/base.tar}
if [ -z "${DOCKER_BASE:-}" ]; then
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,curl,python3,nftables,iproute2 bookworm "$base" \
        >"$dir/base.log" 2>&1 || { tail -n 3 "$dir/base.log"; skip "no base image: mmdebstrap could not fetch Debian"; }
fi
docker import "$base" sgbase >/dev/null || exit 1
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | docker build --network host -q -t sandglass \
    --build-arg BASE=sgbase --build-arg DEPS="${DOCKER_DEPS-build}" - >"$dir/build.log" 2>&1
check "the image is built from the Dockerfile" test $? = 0 || { tail -n 20 "$dir/build.log"; exit 1; }

# By number: the network is the host's, since this dockerd has no bridge.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
seccomp="--security-opt seccomp=unconfined"
paths="--security-opt systempaths=unconfined"
caps="--cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add NET_ADMIN"
groups="-v /sys/fs/cgroup:/sys/fs/cgroup:rw --cgroupns=host"

image=sandglass
doctor() { docker run --rm --network host --entrypoint sandglass "$@" "$image" doctor 2>&1; }
says() { grep -qF -- "$1" <<<"$words" || { grep -E 'NEEDED|missing' <<<"$words" | head -n 8; false; }; }

# shellcheck disable=SC2086 -- flags are words
{
    words=$(doctor $seccomp)
    check "without CAP_SYS_ADMIN there are no boxes, and doctor says it" says "run as root with CAP_SYS_ADMIN"
    words=$(doctor $seccomp $caps $groups)
    check "with /proc/sys read-only doctor says what is in the way" says "limit nested user namespaces: Read-only file system"
    words=$(doctor $seccomp $caps $paths)
    check "without the host's control groups doctor says that there are no limits" says "boxes would have no limits"
    words=$(doctor $caps $paths $groups)
    check "with Docker's own seccomp filter doctor says what is in the way" says "pivot_root: Operation not permitted"
    words=$(doctor $seccomp ${caps/--cap-add SYS_PTRACE/} $paths $groups)
    check "without CAP_SYS_PTRACE doctor says what is in the way" says "/ns/user: Permission denied"
    words=$(doctor $seccomp ${caps/--cap-add NET_ADMIN/} $paths $groups)
    check "without CAP_NET_ADMIN doctor says what is in the way" says "bring up loopback: Operation not permitted"
    image=$(docker history -q sandglass | sed -n 2p) # the step before VOLUME
    words=$(doctor $seccomp $caps $paths $groups)
    check "without the volumes doctor says what is in the way" says "map owners of a mount: Invalid argument"
    image=sandglass
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
docker rm -v sg >/dev/null

refused() { # NAME=VALUE: the container ends and its log names the variable
    local words
    # shellcheck disable=SC2086 -- flags are words
    words=$(timeout 30 docker run --rm --network host $seccomp $caps $paths $groups -e "$1" -e SANDGLASS_LISTEN="127.0.0.1:$port" sandglass 2>&1)
    [ $? != 124 ] && grep -qF "${1%%=*}" <<<"$words" || { echo "$1: $words" | head -n 3; false; }
}
for variable in TZ=Nowhere/City WORKSPACE=relative WAIT_PORTS=80,x PROXY_SERVER=socks5://127.0.0.1:1080 HOMEPAGE='a b' \
    BROWSER_EXTRA_ARGS=word DNS_OVER_HTTPS_TEMPLATES=http://127.0.0.1/ JWT_PUBLIC_KEY=rubbish; do
    check "$variable ends the start, and is named" refused "$variable"
done

# --- a published port, and Compose: by a dockerd with a bridge, in a network of its own ---

iptables=
command -v iptables >/dev/null || iptables=--iptables=false
end_dockerd
# shellcheck disable=SC2016 -- for the inner shell
check "dockerd starts with a bridge" start_dockerd unshare --net sh -c 'ip link set lo up; exec "$@"' sh -- ${iptables:+"$iptables"} || exit 1
url=http://127.0.0.1:8080
token=
curl() { nsenter -t "$dockerd" -n curl ${token:+-H "Authorization: Bearer $token"} "$@"; }
ready() { for _ in $(seq 300); do curl -sf "$url/ready" >/dev/null && return 0; sleep 0.2; done; docker logs "$(docker ps -aq | head -n 1)" | tail -n 20; return 1; }

mkdir -p "$dir/project"
echo "of the host" >"$dir/project/word"
cat >"$dir/project/server.pl" <<'PERL'
use IO::Socket::INET;
$s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 3000, Listen => 5);
while ($c = $s->accept) { while (<$c>) { last if /^\r/ } print $c "HTTP/1.0 200 OK\r\n\r\nof a server\n"; close $c }
PERL
look='{"command": "echo $((6 * 7)); cat project/word; echo of the box > project/answer; date +%Z; df -k --output=size /dev/shm | tail -n 1"}'
seen() { # its /dev/shm in KiB
    check "it answers at the port that is published" ready
    check "the box has the volume, the time zone and /dev/shm" gives "42\\nof the host\\n+08\\n" < <(post /v1/shell/exec "$look" | tr -s ' ')
    check "/dev/shm is as large as was asked for" gives "$1" < <(post /v1/shell/exec "$look")
    check "what the box wrote into the volume belongs to its owner" test "$(stat -c '%u %s' "$dir/project/answer")" = "$(id -u) 11"
    post /v1/bash/exec '{"command": "exec perl project/server.pl", "async_mode": true}' >/dev/null
    check "a server in the box is reached through the port" gives "of a server" < <(curl -s --retry 20 --retry-delay 1 --retry-all-errors -f "$url/proxy/3000/")
}

# shellcheck disable=SC2086 -- flags are words
docker run -d --name published -p 127.0.0.1:8080:8080 --shm-size 96m $seccomp $caps $paths $groups -e TZ=Asia/Singapore \
    -v "$dir/project:/home/gem/project" sandglass >/dev/null
seen 98304
docker rm -fv published >/dev/null
rm -f "$dir/project/answer"

# --- the deployment: docker compose up --build, as docs/install.md says; the build's way out of that network is slirp4netns ---

if docker compose version >/dev/null 2>&1; then
    by=(docker compose)
elif docker-compose version --short 2>/dev/null | grep -qv '^1\.'; then
    by=(docker-compose)
fi
no=
[ -n "${by+yes}" ] || no="no Docker Compose 2 here (1.29 does not know \`cgroup\`)"
command -v slirp4netns >/dev/null || no="no slirp4netns here (apt-get install slirp4netns)"
[ -z "$iptables" ] || no="no iptables here (apt-get install iptables)"

compose() { # words; variables of the deployment stand before it
    PROJECT=$dir/project SANDGLASS_BASE=${from:-sgbase} SANDGLASS_DEPS="${DOCKER_DEPS-build}" "${by[@]}" -p sgtest "$@" >"$dir/compose.log" 2>&1 ||
        { tail -n 20 "$dir/compose.log"; false; }
}
health() { docker inspect -f '{{.State.Health.Status}}' sandglass; }
becomes() { for _ in $(seq 300); do [ "$(health)" = "$1" ] && return 0; sleep 0.2; done; health; return 1; }
code() { test "$(curl -s -o "$dir/body" -w '%{http_code}' "${@:2}")" = "$1" || { head -c 600 "$dir/body"; false; }; }

calls() {
    local box
    box=$(post /sg/v1/boxes '{}' | grep -o '"id":"b-[^"]*"' | head -n 1 | cut -d'"' -f4)
    check "a box is made through the port" test -n "$box"
    check "a file is written in it" gives '"bytes_written":6' < <(post "/box/$box/v1/file/write" '{"file": "f", "content": "words\n"}')
    check "a command sees it" gives '"stdout":"words\n"' < <(post "/box/$box/v1/bash/exec" '{"command": "cat f"}')
    check "it is read back" gives '"content":"words\n"' < <(post "/box/$box/v1/file/read" '{"file": "f"}')
    check "the default box does not have it" gives '"error_type":"not_found"' < <(post /v1/file/read '{"file": "f"}')
    check "/terminal is a page" gives '<title>Terminal</title>' < <(curl -s "$url/terminal")
    check "/v1/docs is a page" gives '/v1/shell/exec' < <(curl -s "$url/v1/docs")
}

with_variables() {
    openssl genrsa -out "$dir/private_key.pem" 2048 2>/dev/null
    openssl rsa -in "$dir/private_key.pem" -pubout -out "$dir/public_key.pem" 2>/dev/null
    printf 'FROM sgbase\nRUN echo newer >/usr/share/newer\n' | docker build -q -t sgnewer - >/dev/null || return 1
    from=sgnewer JWT_PUBLIC_KEY=$(base64 <"$dir/public_key.pem") WORKSPACE='"/home/gem/project"' TZ=Asia/Kathmandu PROXY_SERVER=some:one@127.0.0.1:7890 WAIT_PORTS=3000 \
        DNS_OVER_HTTPS_TEMPLATES=https://127.0.0.1:4443/dns-query HOMEPAGE='data:text/html,<title>Welcome</title>' BROWSER_EXTRA_ARGS='--user-agent=Glass/1' \
        compose up --build -d
}
base64url() { openssl base64 -e -A | tr '+/' '-_' | tr -d '='; }
variables() {
    local head body
    check "JWT_PUBLIC_KEY closes it for who has no token" code 401 --retry 60 --retry-all-errors --retry-delay 1 "$url/v1/sandbox"
    head=$(echo -n '{"alg":"RS256","typ":"JWT"}' | base64url)
    body=$(echo -n "{\"exp\":$(($(date +%s) + 3600))}" | base64url)
    token=$head.$body.$(echo -n "$head.$body" | openssl dgst -sha256 -sign "$dir/private_key.pem" | base64url)
    check "... and opens it for who has one" code 200 "$url/v1/sandbox"
    check "WAIT_PORTS: it is not ready before the port answers" code 503 "$url/ready"
    check "... and Docker knows" test "$(health)" = starting
    # Compose keeps the volume that Docker filled from the image before
    check "/usr is that of the newer image" gives '"stdout":"newer\n"' < <(post /v1/bash/exec '{"command": "cat /usr/share/newer"}')
    check "WORKSPACE and TZ reach the box" gives '"stdout":"/home/gem/project\n+0545\n"' < <(post /v1/bash/exec '{"command": "pwd; date +%z"}')
    check "PROXY_SERVER is the upstream of its proxy" gives '127.0.0.1:7890' < <(curl -s "$url/v1/proxy/upstream")
    post /v1/bash/exec '{"command": "exec perl server.pl", "async_mode": true}' >/dev/null
    check "WAIT_PORTS: it is healthy when the port answers" becomes healthy
    if [ -z "${DOCKER_DEPS-build}" ]; then # the full image has a browser
        check "HOMEPAGE and BROWSER_EXTRA_ARGS reach the browser" gives 'Welcome|Glass/1' \
            < <(sleep 5; post /v1/browser/page/evaluate '{"expression": "document.title + String.fromCharCode(124) + navigator.userAgent"}')
        check "DNS_OVER_HTTPS_TEMPLATES reaches the browser" gives '--dns-over-https-templates=https://127.0.0.1:4443/dns-query' \
            < <(post /v1/bash/exec '{"command": "tr \"\\0\" \"\\n\" < /proc/$(pgrep -of remote-debugging-pipe)/cmdline"}')
    fi
    token=
}

nothing_left() {
    local left
    left=$(docker ps -aq; docker volume ls -q; docker network ls -q --filter label=com.docker.compose.project=sgtest
        find /sys/fs/cgroup -maxdepth 3 -path "*sandglass-$1*"
        nsenter -t "$dockerd" -n ss -Hltn 'sport = :8080')
    [ -z "$left" ] || { echo "$left"; false; }
}

if [ -z "$no" ]; then
    docker volume prune -f >/dev/null # of the containers above
    slirp4netns --configure --mtu=1400 --disable-host-loopback "$dockerd" tap0 >"$dir/slirp.log" 2>&1 &
    slirp=$!
    docker buildx version >/dev/null 2>&1 && export DOCKER_BUILDKIT=1
    docker rmi sandglass >/dev/null
    check "docker compose up --build makes it and waits until it is healthy" compose up --build -d --wait --wait-timeout 900 || exit 1
    check "Docker says that it is healthy" test "$(health)" = healthy
    seen 2097152
    calls
    name=$(docker inspect -f '{{.Config.Hostname}}' sandglass)
    check "docker compose up --build with a newer image and other variables makes it anew" with_variables || exit 1
    check "nothing of the first one is left in the control groups" test -z "$(find /sys/fs/cgroup -maxdepth 3 -path "*sandglass-$name*")"
    variables
    name=$(docker inspect -f '{{.Config.Hostname}}' sandglass)
    check "docker compose down ends it, in time" compose down -v -t 30
    check "nothing is left of it" nothing_left "$name"
else
    echo "skipped docker compose: $no"
    skipped=1
fi

echo "docker: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
