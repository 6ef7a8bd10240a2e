#!/usr/bin/env bash
# `ixion-retry relay` as its users run it, against the example broker: with kcat, and with consumers in Python.
. "$(dirname "$0")/lib.sh"

for program in kcat curl; do
    command -v "$program" >/dev/null || apt_install "$program" || fail "$program is missing: apt-get install $program"
done
need_clients
need_broker
# In the profile of the lints, for which librdkafka is built already.
cargo build --locked -p ixion-retry --features relay
export RELAY=$PWD/target/debug/ixion-retry BROKER=$broker PYTHONPATH=$PWD/examples/broker/clients

suites=retry/clients
# A group waits no longer than it must for members that come late, and a member that was killed is out soon.
soon=(--group-initial-rebalance-delay-ms 100 --group-min-session-timeout-ms 1000)
begin_suites 200
suite kcat "${soon[@]}" -- bash ci/relay_kcat.sh
for part in relay kill end trouble load; do
    suite "$part" "${soon[@]}" -- "$clients/bin/python" "$suites/${part}_suite.py"
done
wait_for_suites

sed 's/^http = .*/http = "192.0.2.1:80"/' retry/relay.toml >"$scratch/elsewhere.toml"
is_refused 1 "192.0.2.1:80" "$RELAY" relay --config "$scratch/elsewhere.toml"
is_refused 2 "--config" "$RELAY" relay
is_refused 2 "--frobnicate" "$RELAY" relay --frobnicate
is_refused 2 "no/such/file" "$RELAY" relay --config no/such/file
