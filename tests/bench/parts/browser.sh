# shellcheck shell=bash disable=SC2154 -- the variables are run.sh's
# Navigate to a static page and take a screenshot of it, over our API and by playwright-core, on the same Chromium. Pictures that our log
# would take besides are off, since playwright takes none; what they cost is browser_record's to say.
measure_browser() {
    local place=build/npm-playwright
    if [ ! -f "$place/done" ]; then
        mkdir -p "$place" && (cd "$place" && echo '{}' >package.json && npm install --no-audit --no-fund --ignore-scripts --loglevel=error \
            playwright-core@1.65.0) >/dev/null 2>&1 || { say "browser: npm cannot be reached"; return 1; }
        touch "$place/done"
    fi
    cp tests/bench/parts/browser.mjs "$place/bench.mjs"
    stop_server
    BENCH_LISTEN_OPTS="${BENCH_LISTEN_OPTS:-} --browser-record=off" start_server
    BENCH_N=${BENCH_N:-${quick:+20}} node "$place/bench.mjs" "$port" "$out" >>"$out/rows.tsv"
}
