#!/usr/bin/env bash
# ixion-retry's demo in full, on a file and on Redis. Then thousands of kills of their workers, kills of the server, and power cuts.
# All fail if something that was promised is lost, or something that was done comes back.
. "$(dirname "$0")/lib.sh"

cargo build --locked --release -p ixion-retry
retry=$PWD/target/release/ixion-retry
redis_server=$(bash ci/redis.sh)
scratch=$(mktemp -d)
server=""
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

# shows TABLE: whether it is the table of a demo in full that has lost nothing, and fits a narrow terminal.
shows() {
    local row
    for row in "workers killed 20" "items pushed 100000" "delivered again after the ack 0" "lost 0"; do
        grep -qE "^${row% *} +${row##* }$" "$1" || fail "no row '$row'"
    done
    [ "$(wc -L <"$1")" -le 80 ] || fail "too wide for a terminal"
}

"$retry" demo | tee "$scratch/file"
shows "$scratch/file"
"$retry" demo --items 1000 --kills 5 --store "$scratch/kept" >/dev/null
is_refused 1 "is there already" "$retry" demo --store "$scratch/kept"

port=$(free_port)
"$redis_server" --bind 127.0.0.1 --port "$port" --dir "$scratch" --save "" --appendonly yes >"$scratch/log" &
server=$!
"$retry" demo --store "redis://127.0.0.1:$port" | tee "$scratch/redis"
shows "$scratch/redis"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'DBSIZE\r\n' >&3
read -r -t 10 keys <&3
exec 3>&-
[ "${keys%$'\r'}" = ":0" ] || fail "the demo has left keys on the server: $keys"
kill "$server"
wait "$server" || true
server=""

is_refused 1 "127.0.0.1:$port: Connection refused" "$retry" demo --store "redis://127.0.0.1:$port"
is_refused 1 "No such file or directory" "$retry" demo --store "$scratch/no/folder"
is_refused 2 "a command is missing" "$retry"
is_refused 2 "unknown command" "$retry" fly
is_refused 2 "--frobnicate" "$retry" demo --frobnicate
is_refused 2 "many" "$retry" demo --items many
is_refused 2 "--workers 2: this store is for 1" "$retry" demo --workers 2
is_refused 2 "without workers" "$retry" demo --workers 0
is_refused 2 "neither a file nor redis://" "$retry" demo --store http://127.0.0.1
echo "bad options are refused, and so is a server that is not there"

IXION_KILLS=2000 IXION_SERVER_KILLS=100 cargo test --locked --release -p ixion-retry --test crash
cargo test --locked --release -p ixion-retry --lib cuts
