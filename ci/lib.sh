# shellcheck shell=bash
# What the stages share. Sourced, not run: every stage starts with `. "$(dirname "$0")/lib.sh"`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Some cargo tools and rustup would otherwise fetch parts of toolchains by themselves.
export CARGO_LLVM_COV_SETUP=no RUSTUP_AUTO_INSTALL=0
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
# What is built here is built once, and by nobody looked into with a debugger.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
export PATH="$PWD/target/tools/bin:$PATH"

# Ends the stage with a reason.
fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# is_refused CODE TEXT COMMAND...: one that must fail with this code and say this. What it says is in $scratch/refused.
is_refused() {
    local want=$1 text=$2 code=0
    shift 2
    timeout 10 "$@" >"$scratch/refused" 2>&1 </dev/null || code=$?
    [ "$code" = "$want" ] || fail "'$*' exits with $code, not $want: $(cat "$scratch/refused")"
    grep -qF -- "$text" "$scratch/refused" || fail "'$*' does not say '$text': $(cat "$scratch/refused")"
}

# free_port: a port that nobody listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Installs packages of the system, if this is root on a system that has apt-get.
apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

# Installs the tools of .ci/tools.txt unless this very list is installed already.
need_tools() {
    if ! cmp -s .ci/tools.txt target/tools/installed.txt; then
        ci/tools.sh
    fi
}

# Where the LLVM is that the compiler was built with, if Debian's package of it is installed.
llvm_bin() {
    echo "/usr/lib/llvm-$(llvm_version)/bin"
}

llvm_version() {
    rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'
}

# Installs the clients that the example broker is tested with, unless these very ones are installed already; sets clients.
need_clients() {
    local from=examples/broker/clients
    clients=$PWD/target/clients
    export NODE_PATH=$clients/node_modules PYTHONDONTWRITEBYTECODE=1
    command -v npm >/dev/null || apt_install npm || fail "npm is missing: apt-get install npm"
    ! cat "$from"/{requirements.txt,package-lock.json} | cmp -s - "$clients/installed.txt" || return 0
    rm -rf "$clients"
    python3 -m venv "$clients"
    "$clients/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        -r "$from/requirements.txt"
    cp "$from"/package*.json "$clients"
    npm ci --prefix "$clients" --silent --no-audit --no-fund
    cat "$from"/{requirements.txt,package-lock.json} >"$clients/installed.txt"
}

# Builds the example broker; sets broker.
need_broker() {
    cargo build --locked --release -p ixion-broker
    broker=$PWD/target/release/ixion-broker
}

# start_broker OUT OPTIONS...: starts it on free ports and waits until it serves. What it prints is in OUT, its errors in
# OUT.err; sets pid, address and control.
start_broker() {
    local out=$1 tries
    shift
    : >"$out" # or what the last one printed might be taken for this one's
    "$broker" serve --listen 127.0.0.1:0 --control 127.0.0.1:0 "$@" >"$out" 2>"$out.err" </dev/null &
    pid=$!
    for tries in $(seq 200); do
        control=$(sed -n 's/^control port on //p' "$out")
        address=$(sed -n 's/^serving on \([^ ]*\) .*/\1/p' "$out")
        [ -z "$control" ] || return 0
        [ "$tries" != 200 ] || fail "the broker did not start: $(cat "$out" "$out.err")"
        sleep 0.1
    done
}

# begin_suites SECONDS: after this come suites, each against a broker of its own, all at the same time, none longer than that.
begin_suites() {
    limit=$1
    scratch=$(mktemp -d)
    mkdir "$scratch/passed"
    names=()
    running=()
    trap end_suites EXIT
    trap 'exit 1' INT TERM
    SECONDS=0
}

end_suites() {
    [ "${#running[@]}" = 0 ] || kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$scratch"
}

# suite NAME OPTIONS... -- COMMAND...: starts the suite COMMAND BOOTSTRAP CONTROL against a broker with these options.
suite() {
    names+=("$1")
    (against "${@:2}") >"$scratch/passed/$1" 2>&1 &
    running+=($!)
}

# against OPTIONS... -- COMMAND...: runs a suite, in a process of its own.
against() {
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    trap 'exit 1' TERM
    local options=() out code=0
    out=$(mktemp -p "$scratch")
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    start_broker "$out" "${options[@]}"
    timeout -k 10 "$limit" "$@" "$address" "$control" </dev/null &
    wait $! || code=$?
    [ "$code" != 124 ] || echo "not done after $limit s"
    kill -TERM "$pid"
    wait "$pid" || fail "the broker ends with $?: $(cat "$out" "$out.err")"
    # The warning, the two addresses, and that it ends: no word of an error.
    [ "$(cat "$out" "$out.err" | wc -l)" = 4 ] || fail "the broker says: $(cat "$out" "$out.err")"
    return "$code"
}

# Waits for all suites and shows what they print. Fails if one of them has failed; what they have passed is in $scratch/passed.
wait_for_suites() {
    local at code failed=""
    for at in "${!names[@]}"; do
        code=0
        wait "${running[at]}" || code=$?
        echo "--- ${names[at]}, after $SECONDS s"
        cat "$scratch/passed/${names[at]}"
        [ "$code" = 0 ] || failed+=" ${names[at]}"
    done
    running=()
    [ -z "$failed" ] || fail "failed:$failed"
}
