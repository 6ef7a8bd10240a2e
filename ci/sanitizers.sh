#!/usr/bin/env bash
# The storms of tests/stress under ThreadSanitizer, and under AddressSanitizer, which looks for leaks too. Each must
# then report the faults of tests/stress/planted.rs: a sanitizer that sees none of them proves nothing.
. "$(dirname "$0")/lib.sh"
need_tools

# Suppressions go by names of functions, which a stack has only with a symbolizer.
PATH="$PATH:$(llvm_bin)"
command -v llvm-symbolizer >/dev/null || fail "llvm-symbolizer is missing: apt-get install llvm-$(llvm_version)"
# Sanitizers are not stable yet; the toolchain is all the same the stable one.
export RUSTC_BOOTSTRAP=1
export TSAN_OPTIONS="suppressions=$PWD/.ci/tsan.supp" ASAN_OPTIONS=detect_leaks=1
host=$(rustc -vV | sed -n 's/^host: //p')

# flags SANITIZER: std is built without it, and ThreadSanitizer's code may be linked to such only if that is said.
flags() {
    case $1 in
    thread) echo "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" ;;
    address) echo "-Zsanitizer=address" ;;
    esac
}

storms() {
    RUSTFLAGS=$(flags "$1") cargo-nextest nextest run --locked -p ixion-stress --target "$host" \
        --target-dir "target/$1" --profile storms
}

# sees SANITIZER FAULT TEXT: the planted fault ends the program, with this text in the report.
sees() {
    local code=0 report planted=target/$1/planted
    # shellcheck disable=SC2046 # several words
    rustc --edition 2024 -g $(flags "$1") --target "$host" -o "$planted" tests/stress/planted.rs
    report=$("$planted" "$2" 2>&1) || code=$?
    if [ "$code" = 0 ] || ! grep -qF "$3" <<<"$report"; then
        fail "the $1 sanitizer does not see the planted $2 (code $code): $report"
    fi
    echo "planted $2: seen by the $1 sanitizer"
}

storms thread
sees thread race "ThreadSanitizer: data race"
storms address
sees address freed "AddressSanitizer: heap-use-after-free"
sees address cycle "LeakSanitizer: detected memory leaks"
