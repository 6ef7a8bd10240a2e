#!/usr/bin/env bash
# The documentation, private items included: a link that leads nowhere is an error.
. "$(dirname "$0")/lib.sh"

export RUSTDOCFLAGS="-D warnings"
cargo doc --locked --no-deps --all-features --document-private-items -p ixion -p ixion-broker
