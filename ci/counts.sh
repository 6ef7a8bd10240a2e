#!/usr/bin/env bash
# The instructions of each hot path, counted by callgrind and held to the limits in tests/counts/limits.txt, which lists
# for each path how many one run of it takes. More than 3 per cent above is a slowdown and fails; more than 3 per cent below
# fails too: write the new figure down. `ci/counts.sh --write` does so. Counts are the same on a busy machine.
. "$(dirname "$0")/lib.sh"

limits=tests/counts/limits.txt
times=10000
command -v valgrind >/dev/null || fail "valgrind is missing: apt-get install valgrind"
cargo build --locked --profile bench -p ixion-counts
counts=${CARGO_TARGET_DIR:-$PWD/target}/release/ixion-counts
paths=$("$counts")
[ -n "$paths" ] || fail "there is no path to count"

# count PATH: instructions of one run.
count() {
    local collected
    collected=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*counted*' "$counts" "$1" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
    [ "${collected:-0}" -gt "$times" ] || fail "callgrind counted nothing for $1"
    echo $((collected / times))
}

if [ "${1:-}" = --write ]; then
    for path in $paths; do
        printf '%-26s %6d\n' "$path" "$(count "$path")"
    done | tee "$limits"
    exit
fi

[ "$(awk '{ print $1 }' "$limits")" = "$paths" ] || fail "$limits does not list the paths of $counts"
off=0
while read -r path limit; do
    now=$(count "$path")
    verdict=ok
    if [ $((now * 100)) -gt $((limit * 103)) ]; then
        verdict="TOO MANY"
    elif [ $((now * 100)) -lt $((limit * 97)) ]; then
        verdict="fewer: write it down"
    fi
    [ "$verdict" = ok ] || off=$((off + 1))
    printf '%-26s %6d of %6d  %s\n' "$path" "$now" "$limit" "$verdict"
done <"$limits"
[ "$off" = 0 ] || fail "$off paths are off their limits by more than 3 per cent"
