#!/usr/bin/env bash
# A relay, $RELAY, between kcat and kcat: ci/relay_kcat.sh BOOTSTRAP CONTROL
. "$(dirname "$0")/verdict.sh"

topic="kcat-$$-$RANDOM"

# settings NAME [LINES]: a config file for a relay with topics of that name.
settings() {
    cat <<TOML
brokers = "$broker"
group = "$topic-$1"
topics = ["$topic-$1.retry"]
dead_letter_topic = "$topic-$1.dead"
target = "$topic-$1"
http = "127.0.0.1:0"
${2:-}
[backoff]
delays_ms = [300, 600]
max_attempts = 3
TOML
}

# starts NAME: starts a relay in the background, once its topics are there; sets pid and metrics, where its figures are.
starts() {
    local end
    for end in .retry .dead ""; do
        timeout 30 kcat -b "$broker" -L -t "$topic-$1$end" >"$scratch/list" || return 1
    done
    settings "$1" >"$scratch/$1.toml"
    # shellcheck disable=SC2153 # from outside
    "$RELAY" relay --config "$scratch/$1.toml" >"$scratch/$1.out" 2>&1 </dev/null &
    pid=$!
    becomes 10000 grep -qs 'http://.*/metrics' "$scratch/$1.out" || return 1
    metrics=$(grep -o 'http://[^ ]*/metrics' "$scratch/$1.out" | head -n 1)
}

# ends SIGNAL: ends the relay, which must exit with 0.
ends() {
    kill "-$1" "$pid"
    local code=0
    wait "$pid" || code=$?
    [ "$code" = 0 ] || { echo "     ended by $1 it exits with $code" && return 1; }
}

# seen NAME: what is in a topic, a line for each record: headers, key and value.
seen() { consume -t "$topic-$1" -o beginning -e -f '%h %k %s\n'; }

# has COUNT NAME: whether there are so many records in the topic.
has() { [ "$(seen "$2" | wc -l)" = "$1" ]; }

comes_back() {
    local started result=0
    starts back || return 1
    started=$(now_ms)
    echo "pay order 17" | produce -t "$topic-back.retry" -k alice -H trace=1 -H retry-attempt=1 -H trace=2 || return 1
    becomes 10000 has 1 back || return 1
    echo "     back after $(($(now_ms) - started)) ms, for a delay of 300: $(seen back)"
    between $(($(now_ms) - started)) 300 5000 || result=1
    seen back | grep -qE '^trace=1,trace=2,retry-attempt=2,retry-first=[0-9]{13} alice pay order 17$' || result=1
    ends TERM && return "$result"
}
verdict "a record comes back after its delay, with one attempt more" comes_back

dies() {
    local result=0
    starts dies || return 1
    echo "pay order 18" | produce -t "$topic-dies.retry" -k bob -H retry-attempt=3 || return 1
    becomes 10000 has 1 dies.dead || return 1
    echo "     $(seen dies.dead)"
    seen dies.dead | grep -q "retry-attempt=3,.*retry-topic=$topic-dies.retry,.*retry-offset=0.* bob pay order 18$" || result=1
    has 0 dies || result=1
    ends INT && return "$result"
}
verdict "after the last attempt it is dead" dies

# figure PATTERN: the sum of the samples whose names and labels match.
figure() { curl -sf "$metrics" | grep -E "^$1( |\{)" | awk '{ sum += $NF } END { print sum + 0 }'; }

# figures: what was read, is back, is dead, and is held.
figures() {
    local name
    for name in read_total republished_total dead_total held; do figure "ixion_relay_$name"; done | paste -sd ' '
}

# shows FIGURES: whether it shows these.
shows() { [ "$(figures)" = "$1" ]; }

figures_add_up() {
    local result=0
    starts figures || return 1
    seq 50 | produce -t "$topic-figures.retry" -H retry-attempt=1 || return 1
    seq 20 | produce -t "$topic-figures.retry" -H retry-attempt=3 || return 1
    seq 30 | produce -t "$topic-figures.retry" -H "retry-due=$(($(now_ms) + 3600000))" || return 1
    becomes 10000 has 50 figures && becomes 10000 has 20 figures.dead || return 1
    becomes 10000 shows "100 50 20 30" || result=1
    echo "     read, back, dead, held: $(figures)"
    ends TERM && return "$result"
}
verdict "the figures for Prometheus add up" figures_add_up

count_verdicts
