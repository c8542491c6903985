# browser_record: what pictures in the log cost a click, with browser.record off, after and both, in turns.
measure_browser_record() {
    "$python" -B tests/bench/browser.py record "$out" "$samples" >>"$out/rows.tsv"
}
