#!/usr/bin/env bash
# An unmodified client, kcat, against a running broker: ci/kcat.sh BOOTSTRAP CONTROL
. "$(dirname "$0")/verdict.sh"

topic="kcat-$$-$RANDOM"

lists_the_nodes() {
    timeout 30 kcat -b "$broker" -L -m 10 >"$scratch/list" || return 1
    [ "$(grep -c '^  broker [123] at ' "$scratch/list")" = 3 ]
}
verdict "metadata lists three nodes" lists_the_nodes

# Each level of acks in turn; then everything is read back, in order.
reads_back_what_it_wrote() {
    local acks
    for acks in 0 1 all; do
        seq -f "acks=$acks %g" 100 | tee -a "$scratch/written" | produce -t "$topic" -p 0 -X "acks=$acks" || return 1
    done
    consume -t "$topic" -p 0 -o beginning -e >"$scratch/read" || return 1
    cmp "$scratch/written" "$scratch/read"
}
verdict "records of acks 0, 1 and all are read back in order" reads_back_what_it_wrote

reads_back_what_it_compressed() {
    local codec
    for codec in gzip snappy lz4 zstd; do
        seq -f "$codec %g" 200 | tee -a "$scratch/compressed" |
            produce -t "$topic-z" -p 0 -z "$codec" -X enable.idempotence=true || return 1
    done
    consume -t "$topic-z" -p 0 -o beginning -e >"$scratch/inflated" || return 1
    cmp "$scratch/compressed" "$scratch/inflated"
}
verdict "compressed batches of an idempotent producer are read back" reads_back_what_it_compressed

# The round-trip times of empty polls, as the client's own log has them.
an_empty_poll_takes_its_time() {
    local slowest fastest
    timeout 5 kcat -b "$broker" -C -t "$topic" -p 0 -o end -X fetch.wait.max.ms=700 -X debug=protocol 2>&1 |
        grep -oE 'FetchResponse.*rtt [0-9.]+' | grep -oE 'rtt [0-9]+' | cut -d' ' -f2 | tail -3 | sort -n >"$scratch/rtt"
    fastest=$(head -1 "$scratch/rtt")
    slowest=$(tail -1 "$scratch/rtt")
    echo "     round trips of ${fastest:-no} to ${slowest:-no} ms for a wait of 700 ms"
    between "${fastest:-0}" 700 1500 && between "${slowest:-0}" 700 1500
}
verdict "an empty poll is answered when its wait is over" an_empty_poll_takes_its_time

an_append_ends_a_poll() {
    local started took reader
    consume -t "$topic" -p 0 -o end -c 1 -u -X fetch.wait.max.ms=20000 >"$scratch/woken" &
    reader=$!
    sleep 2
    started=$(now_ms)
    echo "good morning" | produce -t "$topic" -p 0 -X acks=all || return 1
    wait "$reader" || return 1
    took=$(($(now_ms) - started))
    echo "     woken after $took ms, of a wait of 20000 ms"
    [ "$(cat "$scratch/woken")" = "good morning" ] && between "$took" 0 5000
}
verdict "an append ends a poll that waits" an_append_ends_a_poll

a_paused_follower_costs_the_timeout() {
    local started took
    [ "$(tell pause)" = ok ] || return 1
    started=$(now_ms)
    echo "too late" | timeout 60 kcat -b "$broker" -P -t "$topic" -p 0 -X acks=all -X request.timeout.ms=1000 \
        -X message.timeout.ms=30000 -X retries=0 -X socket.timeout.ms=60000 >"$scratch/refused" 2>&1
    took=$(($(now_ms) - started))
    [ "$(tell resume)" = ok ] || return 1
    echo "     refused after $took ms, for a timeout of 1000 ms"
    grep -q 'Request timed out' "$scratch/refused" && between "$took" 1000 10000
}
verdict "with a paused follower acks=all ends with a timeout of the broker's" a_paused_follower_costs_the_timeout

# What timed out is in the log all the same, and new records are acknowledged again.
all_is_well_after_resume() {
    echo "in time" | produce -t "$topic" -p 0 -X acks=all -X request.timeout.ms=20000 || return 1
    consume -t "$topic" -p 0 -o -2 -e >"$scratch/last" || return 1
    printf 'too late\nin time\n' | cmp - "$scratch/last"
}
verdict "after resume nothing is missing" all_is_well_after_resume

# The partitions that a member has now, as kcat says.
partitions_of() { grep -h 'assigned' "$scratch/member$1" 2>/dev/null | tail -n 1 | grep -o "$topic-g \[[0-9]*\]" | sort; }

# shares MEMBERS...: whether they have three partitions among them, none of them twice.
shares() {
    local member all
    all=$(for member in "$@"; do partitions_of "$member"; done)
    [ "$(grep -c . <<<"$all")" = 3 ] && [ "$(sort -u <<<"$all" | grep -c .)" = 3 ] || return 1
    for member in "$@"; do [ -n "$(partitions_of "$member")" ] || return 1; done
}

a_group_shares_what_there_is() {
    local member members=()
    seq 3 | produce -t "$topic-g" || return 1
    for member in 1 2 3; do
        stdbuf -oL -eL kcat -b "$broker" -G "group-$topic" -X session.timeout.ms=6000 \
            -X heartbeat.interval.ms=500 "$topic-g" >/dev/null 2>"$scratch/member$member" &
        members+=($!)
    done
    local result=0
    becomes 40000 shares 1 2 3 && echo "     three members after $took ms" || result=1
    kill -KILL "${members[0]}"
    wait "${members[0]}" 2>/dev/null
    becomes 40000 shares 2 3 && echo "     two after $took ms, for a session of 6000 ms" || result=1
    between "$took" 3000 20000 || result=1
    kill -TERM "${members[1]}"
    becomes 40000 shares 3 && echo "     one after $took ms, when another has left" || result=1
    between "$took" 0 5500 || result=1
    kill -TERM "${members[2]}"
    becomes 10000 gone "${members[@]}" || kill -KILL "${members[@]}" 2>/dev/null
    wait
    return "$result"
}
verdict "a group shares its partitions, also when one of three is killed and one leaves" a_group_shares_what_there_is

counts_balance() {
    tell stats >"$scratch/stats" || return 1
    python3 - "$scratch/stats" <<'PYTHON'
import json, sys
stats = json.load(open(sys.argv[1]))
for name in "produce", "fetch", "rebalance", "heartbeat":
    books = stats[name]
    ends = sum(books[end] for end in ("satisfied", "expired", "forced", "cancelled", "shut_down", "panicked"))
    print(f"     {name}: {books['registered']} registered, {ends} ended, {books['pending']} pending")
    assert abs(books["registered"] - ends - books["pending"]) <= stats["connections"], "the books don't balance"
    assert books["panicked"] == 0 and books["satisfied"] > 0 and books["expired"] > 0, (name, books)
PYTHON
}
verdict "the books show satisfied and expired requests and balance" counts_balance

count_verdicts
