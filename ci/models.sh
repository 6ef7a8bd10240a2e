#!/usr/bin/env bash
# The races, model-checked: the models on the library as it is, when all must pass; then once with each bug of
# tests/models/bugs.txt planted, when at least one must fail. A checker that sees no planted bug proves nothing.
. "$(dirname "$0")/lib.sh"
need_tools

export RUSTFLAGS="--cfg ixion_loom"
bugs=tests/models/bugs.txt
log=target/models.log
models=(cargo-nextest nextest run --locked --release -p ixion-models --target-dir target/loom --profile models)

# The bugs that the library can plant are the bugs that are tried, no more and no fewer.
planted=$(grep -rhoE 'planted\("[^"]+"\)' src | cut -d'"' -f2 | sort -u)
listed=$(sort "$bugs")
[ -n "$listed" ] || fail "$bugs lists no bug"
[ "$planted" = "$listed" ] ||
    fail "$bugs and the bugs in src differ:"$'\n'"$(diff <(echo "$listed") <(echo "$planted") || true)"

"${models[@]}" --no-run
env -u IXION_PLANTED_BUG "${models[@]}"

for bug in $listed; do
    # 100 is nextest's code for "a test failed": a build that fails has another. A model that merely takes too long is
    # listed as TIMEOUT, and one that loom aborts as SIGABRT.
    code=0
    LOOM_MAX_PREEMPTIONS=3 IXION_PLANTED_BUG=$bug "${models[@]}" >"$log" 2>&1 || code=$?
    seen=$(grep -E '^ +(FAIL|SIGABRT) \[' "$log" | sort -u || true)
    if [ "$code" != 100 ] || [ -z "$seen" ]; then
        tail -n 40 "$log" >&2
        fail "the planted bug $bug was not caught by a model (code $code)"
    fi
    echo "planted $bug: caught by ${seen##* }"
done
