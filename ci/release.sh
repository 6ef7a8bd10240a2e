#!/usr/bin/env bash
# The library's tests on the code that ships: optimised, and without the assertions of a debug build. What comes of a
# mistake that a debug build answers with a panic can be tested only here.
. "$(dirname "$0")/lib.sh"

cargo test --locked --release -p ixion --lib --tests
