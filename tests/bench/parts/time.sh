# shellcheck shell=bash disable=SC2154 -- the variables are run.sh's
# What states cost: snapshot, reset, fork, a state per step. Fast-forward is a measure of its own.
measure_time() {
    "$python" -B tests/bench/parts/time.py "$port" "$out" "$home" "$samples" ${quick:+--quick}
}
