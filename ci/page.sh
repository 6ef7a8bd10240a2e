#!/usr/bin/env bash
# The broker's live page and its figures for Prometheus, in a headless Chromium that clicks and reads.
. "$(dirname "$0")/lib.sh"

command -v chromium >/dev/null || apt_install chromium || fail "chromium is missing: apt-get install chromium"
need_clients
cargo build --locked --release -p ixion-broker
CHROMIUM=$(command -v chromium) timeout -k 10 300 \
    node examples/broker/clients/page_suite.js target/release/ixion-broker "$clients/bin/python"
