#!/usr/bin/env bash
# The races, model-checked by loom and by shuttle: the models on the library as it is, when all must pass; then once with
# each bug of tests/models/bugs.txt planted, when its models must fail. A checker that sees no planted bug proves nothing.
. "$(dirname "$0")/lib.sh"
need_tools

checkers="loom shuttle"
bugs=tests/models/bugs.txt
log=target/models.log

# The bugs that the library, and the queue on it, can plant are the bugs that are tried, no more and no fewer.
planted=$(grep -rhoE 'planted\("[^"]+"\)' src retry/src --exclude=fault.rs | cut -d'"' -f2 | sort -u)
listed=$(grep -oE '^[a-z][^ ]*' "$bugs" | sort)
[ -n "$listed" ] || fail "$bugs lists no bug"
[ "$planted" = "$listed" ] ||
    fail "$bugs and the bugs in src and retry/src differ:"$'\n'"$(diff <(echo "$listed") <(echo "$planted") || true)"

# Runs models under a checker: `run CHECKER ARGUMENT...`.
run() {
    RUSTFLAGS="--cfg ixion_$1" cargo-nextest nextest run --locked --release -p ixion-models \
        --target-dir "target/$1" --profile models "${@:2}"
}

for checker in $checkers; do
    code=0
    unset IXION_PLANTED_BUG IXION_REPLAY
    run "$checker" 2>&1 | tee "$log" || code=$?
    [ "$code" = 0 ] || fail "a model failed under $checker"
    # All have run: as many as stand in the files for this checker.
    written=$(grep -lE "^#!\[cfg\(.*\bixion_$checker\b" tests/models/tests/*.rs | xargs cat | grep -c '^#\[test\]')
    grep -qE "Summary .* $written tests run: $written passed" "$log" || fail "$checker has not run all $written models"
done

for bug in $listed; do
    filter=$(sed -nE "s/^$bug +//p" "$bugs" | sed -E 's/[^ ]+/test(=&)/g; s/ +/|/g')
    seen=""
    for checker in $checkers; do
        # 100 is nextest's code for "a test failed", and 4 for "there is no such test". A build that fails has another. A
        # model that merely takes too long is listed as TIMEOUT, and one that loom aborts as SIGABRT.
        code=0
        IXION_PLANTED_BUG=$bug run "$checker" -E "$filter" >"$log" 2>&1 || code=$?
        [ "$code" != 4 ] || continue
        by=$(grep -E '^ +(FAIL|SIGABRT) \[' "$log" | sort -u | tail -n 1 || true)
        if [ "$code" != 100 ] || [ -z "$by" ]; then
            tail -n 40 "$log" >&2
            fail "the planted bug $bug was not caught by $checker (code $code)"
        fi
        seen+="${seen:+, and }by $checker in ${by##* }"
    done
    [ -n "$seen" ] || fail "no checker has a model for the planted bug $bug"
    echo "planted $bug: caught $seen"
done
# The schedules of planted bugs are of no use to anybody.
rm -rf target/schedules
