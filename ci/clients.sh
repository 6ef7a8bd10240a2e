#!/usr/bin/env bash
# Unmodified clients at pinned versions, each against a broker of its own, all at the same time. What they pass is held to
# the table in the broker's README.
. "$(dirname "$0")/lib.sh"

suites=examples/broker/clients
# Seconds that a suite may take.
limit=240
# How long the followers may lag in the suite that waits until they are left behind.
export LAG_MS=8000

command -v kcat >/dev/null || apt_install kcat || fail "kcat is missing: apt-get install kcat"
need_clients
cargo build --locked --release -p ixion-broker
broker=$PWD/target/release/ixion-broker
scratch=$(mktemp -d)
mkdir "$scratch/passed"
running=()
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    [ "${#running[@]}" = 0 ] || kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# against OPTIONS... -- COMMAND...: runs a suite against a broker that is started with these options. In a process of its own.
against() {
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    trap 'exit 1' TERM
    local options=() out tries pid code=0 address control=""
    out=$(mktemp -p "$scratch")
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    "$broker" serve --listen 127.0.0.1:0 --control 127.0.0.1:0 "${options[@]}" >"$out" 2>&1 </dev/null &
    pid=$!
    for tries in $(seq 200); do
        control=$(sed -n 's/^control port on //p' "$out")
        address=$(sed -n 's/^serving on \([^ ]*\) .*/\1/p' "$out")
        [ -z "$control" ] || break
        [ "$tries" != 200 ] || fail "the broker did not start: $(cat "$out")"
        sleep 0.1
    done
    timeout -k 10 "$limit" "$@" "$address" "$control" </dev/null &
    wait $! || code=$?
    [ "$code" != 124 ] || echo "not done after $limit s"
    kill -TERM "$pid"
    wait "$pid" || fail "the broker ends with $?: $(cat "$out")"
    # The warning, the two addresses, and that it ends: no word of an error.
    [ "$(wc -l <"$out")" = 4 ] || fail "the broker says: $(cat "$out")"
    return "$code"
}

# suite NAME OPTIONS... -- COMMAND...: starts that in the background.
names=()
suite() {
    names+=("$1")
    (against "${@:2}") >"$scratch/passed/$1" 2>&1 &
    running+=($!)
}

SECONDS=0
# Groups need not wait for members that come late, but in one suite, where all is as it is without options.
soon=(--group-initial-rebalance-delay-ms 500)
suite kcat -- bash ci/kcat.sh
suite confluent-kafka "${soon[@]}" --replica-lag-time-max-ms "$LAG_MS" -- "$clients/bin/python" "$suites/confluent_suite.py"
suite kafka-python "${soon[@]}" -- "$clients/bin/python" "$suites/kafka_python_suite.py"
suite aiokafka "${soon[@]}" -- "$clients/bin/python" "$suites/aiokafka_suite.py"
suite kafkajs "${soon[@]}" -- node "$suites/kafkajs_suite.js"
suite platformatic "${soon[@]}" -- node "$suites/platformatic_suite.js"
suite wire "${soon[@]}" -- python3 "$suites/wire_probe.py"

failed=""
for at in "${!names[@]}"; do
    code=0
    wait "${running[at]}" || code=$?
    echo "--- ${names[at]}, after $SECONDS s"
    cat "$scratch/passed/${names[at]}"
    [ "$code" = 0 ] || failed+=" ${names[at]}"
done
running=()
[ -z "$failed" ] || fail "failed:$failed"
python3 "$suites/matrix.py" examples/broker/README.md "$scratch/passed"
