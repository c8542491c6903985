# aio: a command through bash/exec and shell/exec against posix_spawn of the same bash on the host, in turns.
measure_aio() {
    "$python" -B tests/bench/aio.py "$port" "$out" "$samples" >>"$out/rows.tsv"
}
