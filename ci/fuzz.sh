#!/usr/bin/env bash
# The fuzz targets: all are built, and each runs for a few seconds from its corpus, without a sanitizer, which a stable
# toolchain can do. It shows that they run and sees what is broken badly; CONTRIBUTING.md says how to fuzz for long.
. "$(dirname "$0")/lib.sh"
need_tools

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log

cargo fetch --locked --quiet --manifest-path fuzz/Cargo.toml
cargo fuzz build --sanitizer none
targets=$(cargo fuzz list)
[ -n "$targets" ] || fail "there is no target"
for target in $targets; do
    # A copy, since new inputs are written beside the old ones. One seed: a run goes through the same inputs, as far as it gets.
    cp -r "fuzz/corpus/$target" "$scratch/corpus"
    code=0
    cargo fuzz run --sanitizer none "$target" "$scratch/corpus" -- \
        -seed=1 -max_total_time=5 -timeout=20 -artifact_prefix="$scratch/found-" </dev/null >"$log" 2>&1 || code=$?
    runs=$(sed -n 's/^Done \([1-9][0-9]*\) runs.*/\1/p' "$log")
    if [ "$code" != 0 ] || [ -z "$runs" ]; then
        grep -m 1 -A 5 'panicked at' "$log" >&2 || tail -n 40 "$log" >&2
        for found in "$scratch"/found-*; do
            [ -e "$found" ] && echo "the input, for base64 -d: $(base64 -w 0 "$found")" >&2
        done
        fail "$target fails (code $code)"
    fi
    rm -r "$scratch/corpus"
    echo "$target: $runs runs"
done
