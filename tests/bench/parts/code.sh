# shellcheck shell=bash disable=SC2154 -- the variables are run.sh's
# Code: new contexts and kernels against cold interpreters, a live kernel against a bare ZeroMQ client, memory of contexts.
measure_code() {
    "$python" -B tests/bench/parts/code.py "$out" ${quick:+--quick} >>"$out/rows.tsv"
}
