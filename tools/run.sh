#!/bin/bash
# Starts the server in the foreground and says how to make the first call. SIGINT ends it with its roles, since exec makes the
# server itself the foreground process; boxes wait for the next one until orphan.timeout.
set -eu
cd "$(dirname "$0")/.."

listen=${SANDGLASS_LISTEN:-127.0.0.1:8080}
args=("$@")
for ((i = 0; i < $#; i++)); do
    case ${args[i]} in
    --listen) listen=${args[i + 1]:-$listen} ;;
    --listen=*) listen=${args[i]#--listen=} ;;
    esac
done

cat <<TEXT

  Sandglass is at http://$listen  (Ctrl-C ends it). The first call, once it says that it is ready:

  curl -s http://$listen/api/v1/execute -H 'Content-Type: application/json' -d '{"worker_id":"me","action":"bash:run","params":{"command":"echo hello from \$(hostname)"}}'

TEXT
exec build/sandglass serve "$@"
