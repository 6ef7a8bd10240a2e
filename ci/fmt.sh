#!/usr/bin/env bash
# The form of Rust and TOML files. `cargo fmt --all` and `taplo fmt` put it right.
. "$(dirname "$0")/lib.sh"
need_tools

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
taplo fmt --check
