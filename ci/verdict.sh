# shellcheck shell=bash
# What the suites with kcat share. Sourced, not run: SUITE BOOTSTRAP CONTROL
# Each scenario prints a line; the last line counts them. Topics have names of their own, so it can be run again and again.
set -uo pipefail

[ $# = 2 ] || { echo "usage: $0 BOOTSTRAP CONTROL" >&2; exit 2; }
broker=$1
control=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# verdict NAME COMMAND...: passes if the command does.
verdict() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "PASS $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
    fi
}

# between VALUE LOW HIGH
between() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }

now_ms() { date +%s%3N; }

# One line to the control port, its reply on standard output.
tell() {
    local reply
    exec 7<>"/dev/tcp/${control%:*}/${control##*:}" || return 1
    echo "$1" >&7
    IFS= read -r -t 10 reply <&7
    exec 7>&-
    echo "$reply"
}

produce() { timeout 30 kcat -q -b "$broker" -P "$@"; }
consume() { timeout 30 kcat -q -b "$broker" -C "$@"; }

# becomes MILLISECONDS COMMAND...: waits until the command succeeds; sets took.
becomes() {
    local limit=$1 started
    shift
    started=$(now_ms)
    until "$@"; do
        [ $(($(now_ms) - started)) -le "$limit" ] || return 1
        sleep 0.1
    done
    # shellcheck disable=SC2034 # for the caller
    took=$(($(now_ms) - started))
}

# gone PIDS...: whether none of them runs.
gone() { ! kill -0 "$@" 2>/dev/null; }

# The last line, and whether all have passed.
count_verdicts() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
