#!/usr/bin/env bash
# The broker's demo, five seconds of it, into a file and on a narrow terminal. Then its load in little.
# All fail if an answer is wrong or early, or if the books don't balance.
. "$(dirname "$0")/lib.sh"

cargo build --locked --release -p ixion-broker
broker=$PWD/target/release/ixion-broker
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# What the tour has to show.
things=15

start=$SECONDS
"$broker" demo --seconds 5 | tee "$scratch/file"
# A demo that does nothing succeeds at once.
[ $((SECONDS - start)) -ge 5 ] || fail "the demo ended early"
[ "$(grep -cE " (at once|[0-9]+ ms) +[0-9.]+ ms +ok$" "$scratch/file")" = "$things" ] || fail "not all was seen"

NO_COLOR=1 TERM=xterm script -qec "stty cols 50 rows 24; '$broker' demo --seconds 5" "$scratch/terminal" </dev/null >/dev/null
# What stays of each line.
sed -e 's/\r*$//' -e 's/.*\r//' -e 's/\x1b\[K//g' -e '/^Script /d' "$scratch/terminal" >"$scratch/narrow"
[ "$(wc -L <"$scratch/narrow")" -le 50 ] || fail "too wide for the terminal: $(cat "$scratch/narrow")"
[ "$(grep -c " ok$" "$scratch/narrow")" = "$things" ] || fail "not all was seen: $(cat "$scratch/narrow")"
grep -qF "requests wait" "$scratch/terminal" || fail "a terminal is not shown how it goes: $(cat "$scratch/narrow")"
echo "the same fits a narrow terminal"
ci/load.sh
