# browser_pool: the first screenshot in a box whose browser waited in the pool, against one that is started.
measure_browser_pool() {
    "$python" -B tests/bench/browser.py pool "$out" "$samples" >>"$out/rows.tsv"
}
