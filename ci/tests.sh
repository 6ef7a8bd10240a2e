#!/usr/bin/env bash
# All tests: `cargo test --workspace`, as in the README.
. "$(dirname "$0")/lib.sh"

cargo test --locked --workspace
