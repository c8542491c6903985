# guard: what one client does to the others. p99 of a client with a no-op tool, alone and beside each attack, in turns.
measure_guard() {
    "$python" -B tests/bench/guard.py "$port" "$out" "${quick:+quick}" >>"$out/rows.tsv"
}
