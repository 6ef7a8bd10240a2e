#!/usr/bin/env bash
# The broker as its users run it: started from the command line, used by kcat, ended by a signal.
. "$(dirname "$0")/lib.sh"

if ! command -v kcat >/dev/null; then
    [ "$(id -u)" = 0 ] || fail "kcat is missing: apt-get install kcat"
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends kcat >/dev/null
fi
cargo build --locked --release -p ixion-broker
broker=$PWD/target/release/ixion-broker
scratch=$(mktemp -d)
pid=""
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

# starts ARGS...: starts a broker on free ports and waits for what it prints; sets pid, address and control.
starts() {
    "$broker" serve --listen 127.0.0.1:0 --control 127.0.0.1:0 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    local tries
    for tries in $(seq 100); do
        control=$(sed -n 's/^control port on //p' "$scratch/out")
        address=$(sed -n 's/^serving on \([^ ]*\) .*/\1/p' "$scratch/out")
        [ -z "$control" ] || return 0
        [ "$tries" != 100 ] || fail "the broker did not start: $(cat "$scratch/out" "$scratch/err")"
        sleep 0.1
    done
}

# stops SIGNAL: ends the broker and demands a clean end.
stops() {
    kill "-$1" "$pid"
    local code=0
    wait "$pid" || code=$?
    pid=""
    [ "$code" = 0 ] || fail "ended by $1 the broker exits with $code: $(cat "$scratch/err")"
    [ "$(tail -n 1 "$scratch/out")" = "shutting down" ] || fail "the broker says nothing of shutting down"
    [ ! -s "$scratch/err" ] || fail "errors: $(cat "$scratch/err")"
}

# refuses CODE TEXT ARGS...: a call that must fail with this code and say this.
refuses() {
    local want=$1 text=$2 code=0
    shift 2
    timeout 10 "$broker" "$@" >"$scratch/refused" 2>&1 </dev/null || code=$?
    [ "$code" = "$want" ] || fail "'$*' exits with $code, not $want: $(cat "$scratch/refused")"
    grep -qF -- "$text" "$scratch/refused" || fail "'$*' does not say '$text': $(cat "$scratch/refused")"
}

starts --replicas 3
head -n 1 "$scratch/out" | grep -qF "keeps everything in memory" || fail "the first line is no warning"
echo "--- kcat against $address, with control port $control"
bash ci/kcat.sh "$address" "$control"

refuses 2 "a command is missing"
refuses 2 "unknown command" fly
refuses 2 "--frobnicate" serve --frobnicate
refuses 2 "nonsense" serve --listen nonsense
refuses 2 "--replicas must be at least 1" serve --replicas 0
refuses 1 "cannot serve on $address" serve --listen "$address"
echo "bad options are refused"

# A poll that waits is answered when the broker ends: a fetch (version 4) of one partition that waits for a minute.
exec 8<>"/dev/tcp/${address%:*}/${address##*:}"
timeout 20 kcat -q -b "$address" -P -t parked -p 0 <<<"one"
printf '\0\0\0\x3e\0\1\0\4\0\0\0\7\0\3ci!\xff\xff\xff\xff\0\0\xea\x60\0\0\0\1\0\x10\0\0\0' >&8
printf '\0\0\0\1\0\6parked\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\1\0\x10\0\0' >&8
sleep 1
stops TERM
answer=$(timeout 10 head -c 8 <&8 | od -An -tx1 | tr -d ' \n')
exec 8>&-
[ "${answer:8}" = 00000007 ] || fail "the poll that waited was not answered: '$answer'"
echo "SIGTERM answers what waits and ends cleanly"

starts --replicas 1
stops INT
echo "SIGINT ends cleanly"
