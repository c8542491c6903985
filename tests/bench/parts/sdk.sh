# shellcheck shell=bash disable=SC2154 -- the variables are run.sh's
# sdk: what the Python client adds to a call, against the same bytes written to and read from a socket, in turns.
measure_sdk() {
    "$python" -B tests/bench/parts/sdk.py "$port" "$out" "$samples" >>"$out/rows.tsv"
}
