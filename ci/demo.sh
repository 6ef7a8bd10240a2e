#!/usr/bin/env bash
# The broker's demo, five seconds of it. It fails if an answer is wrong or early, or if the books don't balance.
. "$(dirname "$0")/lib.sh"

cargo run --locked --release -p ixion-broker -- demo --seconds 5
