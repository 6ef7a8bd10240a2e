#!/usr/bin/env bash
# The broker's demo, five seconds of it. It fails if an answer is wrong or early, or if the books don't balance.
. "$(dirname "$0")/lib.sh"

cargo build --locked --release -p ixion-broker
start=$SECONDS
cargo run --locked --release -p ixion-broker -- demo --seconds 5
# A demo that does nothing succeeds at once.
[ $((SECONDS - start)) -ge 5 ] || fail "the demo ended early"
