#!/usr/bin/env bash
# The broker as its users run it: started from the command line, used by real clients, ended by a signal.
. "$(dirname "$0")/lib.sh"

command -v kcat >/dev/null || apt_install kcat || fail "kcat is missing: apt-get install kcat"
need_broker
bash ci/clients.sh
scratch=$(mktemp -d)
pid=""
followers=""
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    local one
    # A process that is stopped ends by KILL alone.
    for one in $pid $followers; do kill -KILL "$one" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap clean_up EXIT

# stops SIGNAL: ends the broker and demands a clean end.
stops() {
    kill "-$1" "$pid"
    local code=0
    wait "$pid" || code=$?
    pid=""
    [ "$code" = 0 ] || fail "ended by $1 the broker exits with $code: $(cat "$scratch/out.err")"
    [ "$(tail -n 1 "$scratch/out")" = "shutting down" ] || fail "the broker says nothing of shutting down"
    [ ! -s "$scratch/out.err" ] || fail "errors: $(cat "$scratch/out.err")"
}

# refuses CODE TEXT ARGS...: a call that must fail with this code and say this.
refuses() { is_refused "$1" "$2" "$broker" "${@:3}"; }

start_broker "$scratch/out" --replicas 3
head -n 1 "$scratch/out" | grep -qF "keeps everything in memory" || fail "the first line is no warning"

refuses 2 "a command is missing"
refuses 2 "unknown command" fly
refuses 2 "--frobnicate" serve --frobnicate
refuses 2 "nonsense" serve --listen nonsense
refuses 2 "--replicas takes a whole number from 1" serve --replicas 0
refuses 2 "--partitions" serve --partitions many
refuses 2 "contradict each other" serve --replicas 3 --follower 127.0.0.1:2
refuses 2 "--node" follow --leader "$address" --node 1
refuses 1 "cannot serve on $address" serve --listen "$address"
refuses 1 "cannot open the control port on $control" serve --listen 127.0.0.1:0 --control "$control"
[ ! -e /dev/full ] || for command in "--help" "serve --listen 127.0.0.1:0" "demo"; do
    code=0
    # shellcheck disable=SC2086 # these are words
    timeout 10 "$broker" $command >/dev/full 2>"$scratch/refused" </dev/null || code=$?
    [ "$code" = 1 ] || fail "'$command' exits with $code though it cannot write"
    grep -qF "cannot write" "$scratch/refused" || fail "'$command' does not say what is wrong: $(cat "$scratch/refused")"
done
echo "bad options are refused, and so is an output that is full"

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

start_broker "$scratch/out" --replicas 1
stops INT
echo "SIGINT ends cleanly"

# Whoever reads the output may stop.
timeout 20 "$broker" --help | head -n 1 >/dev/null
timeout -s INT 3 "$broker" serve --listen 127.0.0.1:0 2>"$scratch/err" | head -n 1 >/dev/null || true
[ ! -s "$scratch/err" ] || fail "a closed pipe is an error for serve: $(cat "$scratch/err")"
timeout 60 "$broker" demo --seconds 5 2>"$scratch/err" | head -n 1 >/dev/null || true
[ ! -s "$scratch/err" ] || fail "a closed pipe is an error for demo: $(cat "$scratch/err")"
echo "a closed pipe is no error"

timeout --preserve-status -s INT 3 "$broker" demo --seconds 60 >"$scratch/demo" || fail "an interrupted demo fails"
grep -q "^purgatory  *registered" "$scratch/demo" || fail "an interrupted demo shows no table: $(cat "$scratch/demo")"
grep -q "^interrupted; up to there every answer was right" "$scratch/demo" || fail "an interrupted demo does not say so"
echo "an interrupted demo shows its table"

# follows NODE PORT: starts a follower in a process of its own; sets follower.
follows() {
    "$broker" follow --leader "$address" --node "$1" --listen "127.0.0.1:$2" >"$scratch/follow$1" 2>&1 </dev/null &
    follower=$!
    followers="$followers $follower"
}

# in_sync COUNT: waits until so many nodes have everything.
in_sync() {
    local tries stats
    for tries in $(seq 150); do
        exec 7<>"/dev/tcp/${control%:*}/${control##*:}"
        echo stats >&7
        IFS= read -r -t 10 stats <&7
        exec 7>&-
        [[ $stats != *"\"isr\":$1,"* ]] || return 0
        [ "$tries" != 150 ] || fail "there are not $1 in sync: $stats"
        sleep 0.1
    done
}

writes() { timeout 30 kcat -q -b "$address" -P -t copied -p 0 -X acks=all -X message.timeout.ms=20000 <<<"$1"; }

ports=("$(free_port)" "$(free_port)")
start_broker "$scratch/out" --follower "127.0.0.1:${ports[0]}" --follower "127.0.0.1:${ports[1]}" --replica-lag-time-max-ms 1000
follows 2 "${ports[0]}"
follows 3 "${ports[1]}"
writes "one"
in_sync 3
kill -STOP "$follower"
writes "two"
in_sync 2
kill -CONT "$follower"
in_sync 3
kill -KILL "$follower"
writes "three"
in_sync 2
follows 3 "${ports[1]}"
in_sync 3
writes "four"
# Any node may be asked for what the leader knows.
timeout 30 kcat -q -b "127.0.0.1:${ports[1]}" -C -t copied -p 0 -o beginning -e >"$scratch/copied"
printf '%s\n' one two three four | cmp - "$scratch/copied" || fail "not all was read back: $(cat "$scratch/copied")"
stops TERM
for tries in $(seq 100); do
    ! grep -q "has hung up\|cannot reach" "$scratch/follow3" || break
    [ "$tries" != 100 ] || fail "a follower says nothing of a leader that has gone: $(cat "$scratch/follow3")"
    sleep 0.1
done
for one in $followers; do kill -TERM "$one" 2>/dev/null || true; done
echo "followers in processes of their own may be stopped, killed and started anew"
