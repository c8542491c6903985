# browser_memory: ten browsers at once, and the memory of each.
measure_browser_memory() {
    "$python" -B tests/bench/browser.py memory "$out" "$samples" >>"$out/rows.tsv"
}
