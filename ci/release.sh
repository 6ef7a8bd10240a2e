#!/usr/bin/env bash
# The library's tests on the code that ships: optimised, and without the assertions of a debug build. What a mistake
# does to which a debug build would answer with a panic can be tested only here.
. "$(dirname "$0")/lib.sh"

cargo test --locked --release -p ixion --lib --tests
