#!/usr/bin/env bash
# The broker under load and in trouble, in little: it works, and its figures would find their places in the README.
#
# `ci/load.sh --full` takes the figures in full, in some two minutes, and `ci/load.sh --write` also writes them into
# examples/broker/README.md. They are worth something only on a machine that has nothing else to do.
. "$(dirname "$0")/lib.sh"

write=no
size=(--short)
for argument in "$@"; do
    case $argument in
    --full) size=() ;;
    --write) size=() write=yes ;;
    *) fail "what is $argument?" ;;
    esac
done

cargo build --locked --release -p ixion-broker
readme=examples/broker/README.md
figures=target/load.md
{
    echo "# Load: where and when"
    echo
    echo "Taken on $(date -u +%F) by \`ci/load.sh $*\`, which repeats it: $(ci/machine.sh)."
} >"$figures"
for part in polls members faults hostile; do
    table=$(timeout 200 target/release/ixion-broker load "$part" "${size[@]}") || fail "load $part failed: $table"
    echo "$table"
    echo
    # shellcheck disable=SC2016 # the fence of a block of text
    printf '\n# Load: %s\n\n```text\n%s\n```\n' "$part" "$table" >>"$figures"
done
cp "$readme" target/load-readme.md
python3 ci/quote.py "$figures" target/load-readme.md
[ "$write" = no ] || cp target/load-readme.md "$readme"
