#!/bin/bash
# The documentation's six steps of authentication, with openssl and curl alone. Step 2 starts the server; what the steps say is
# left as it stands there, but for the port and the program that is started. Prints the URL of step 6.
#   six_steps.sh PROGRAM PORT HOME [FLAGS OF SERVE...]
set -eu
program=$1 port=$2 home=$3
shift 3
work=$(mktemp -d)
guard=
trap '[ -z "$guard" ] || { kill "$guard"; wait "$guard" || :; }; rm -rf "$work"' EXIT
cd "$work"
command -v jq >/dev/null || jq() { # -r .NAME
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "${2#.}"
}

# 1. Generate key pair
openssl genrsa -out private_key.pem 2048 2>/dev/null
openssl rsa -in private_key.pem -pubout -out public_key.pem 2>/dev/null

# 2. Start sandbox with public key
export JWT_PUBLIC_KEY=$(cat public_key.pem | base64)
"$program" serve --listen "127.0.0.1:$port" --home "$home" "$@" >"$work/log" 2>&1 &
guard=$!
for _ in $(seq 600); do
    [ "$(curl -s -o /dev/null -w '%{http_code}' "http://localhost:$port/ready")" = 200 ] && break
    kill -0 "$guard" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep .1
done

# 3. Generate a JWT with the private key
base64url_encode() { openssl base64 -e -A | tr '+/' '-_' | tr -d '='; }
header='{"alg":"RS256","typ":"JWT"}'
exp_time=$(($(date +%s) + 3600))
payload="{\"exp\":${exp_time}}"
to_be_signed="$(echo -n "$header" | base64url_encode).$(echo -n "$payload" | base64url_encode)"
signature=$(echo -n "$to_be_signed" | openssl dgst -sha256 -sign private_key.pem | base64url_encode)
jwt="${to_be_signed}.${signature}"

# 4. Call the API with Bearer token
without=$(curl -s -o /dev/null -w '%{http_code}' "http://localhost:$port/v1/sandbox")
with=$(curl -s -o sandbox.json -w '%{http_code}' -X GET "http://localhost:$port/v1/sandbox" -H "Authorization: Bearer ${jwt}")
echo "GET /v1/sandbox: $without without a token, $with with it"

# 5. Exchange JWT for a short-lived ticket (for VNC / WebSocket URLs)
ticket_response=$(curl -s -X POST "http://localhost:$port/tickets" -H "Authorization: Bearer ${jwt}")
ticket=$(echo "$ticket_response" | jq -r .ticket)

# 6. Use ticket in browser URL (no Authorization header needed)
url="http://localhost:$port/vnc/index.html?ticket=${ticket}&path=websockify%3Fticket%3D${ticket}"
echo "page: $(curl -s -o /dev/null -w '%{http_code}' "$url"), without its ticket: $(curl -s -o /dev/null -w '%{http_code}' "${url%%\?*}")"
open_socket() { # curl waits for more after the 101, until it is told to stop; the first time a desktop has to start
    for _ in $(seq 30); do
        code=$(curl -s -o /dev/null -w '%{http_code}' --max-time 4 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
            -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' "http://localhost:$port/websockify$1" || :)
        [ "$code" = 000 ] || break
    done
    echo "$code"
}
echo "its socket: $(open_socket "?ticket=${ticket}"), without its ticket: $(open_socket "")"
echo "$url"
