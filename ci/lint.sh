#!/usr/bin/env bash
# What can be seen without running anything: lints, spelling, scripts, dependencies.
. "$(dirname "$0")/lib.sh"
need_tools

taplo lint
typos
shellcheck --external-sources --source-path=SCRIPTDIR ci/*.sh .ci/run
cargo fetch --locked --quiet
cargo-deny --offline --workspace --all-features check --hide-inclusion-graph bans licenses sources
cargo-shear
cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
