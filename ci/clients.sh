#!/usr/bin/env bash
# Unmodified clients at pinned versions, each against a broker of its own, all at the same time. What they pass is held to
# the table in the broker's README.
. "$(dirname "$0")/lib.sh"

suites=examples/broker/clients
# How long the followers may lag in the suite that waits until they are left behind.
export LAG_MS=8000

command -v kcat >/dev/null || apt_install kcat || fail "kcat is missing: apt-get install kcat"
need_clients
need_broker
begin_suites 240
# Groups need not wait for members that come late, but in one suite, where all is as it is without options.
soon=(--group-initial-rebalance-delay-ms 500)
suite kcat -- bash ci/kcat.sh
suite confluent-kafka "${soon[@]}" --replica-lag-time-max-ms "$LAG_MS" -- "$clients/bin/python" "$suites/confluent_suite.py"
suite kafka-python "${soon[@]}" -- "$clients/bin/python" "$suites/kafka_python_suite.py"
suite aiokafka "${soon[@]}" -- "$clients/bin/python" "$suites/aiokafka_suite.py"
suite kafkajs "${soon[@]}" -- node "$suites/kafkajs_suite.js"
suite platformatic "${soon[@]}" -- node "$suites/platformatic_suite.js"
suite wire "${soon[@]}" -- python3 "$suites/wire_probe.py"
wait_for_suites
python3 "$suites/matrix.py" examples/broker/README.md "$scratch/passed"
