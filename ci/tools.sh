#!/usr/bin/env bash
# Installs the pinned tools into target/tools; and, where it may, what some stages need from the system.
. "$(dirname "$0")/lib.sh"

make_venv() {
    rm -rf target/tools
    python3 -m venv target/tools
}

if ! cmp -s .ci/tools.txt target/tools/installed.txt; then
    make_venv || { apt_install python3-venv && make_venv; } || fail "python3 with venv is needed"
    target/tools/bin/pip install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        -r .ci/tools.txt
    cp .ci/tools.txt target/tools/installed.txt
fi
command -v valgrind >/dev/null || apt_install valgrind || echo "valgrind is missing: ci/counts.sh needs it"
for program in kcat npm; do
    command -v "$program" >/dev/null || apt_install "$program" || echo "$program is missing: ci/e2e.sh needs it"
done
command -v chromium >/dev/null || apt_install chromium || echo "chromium is missing: ci/page.sh needs it"
[ -d "$(llvm_bin)" ] || apt_install "llvm-$(llvm_version)" ||
    echo "llvm-$(llvm_version) is missing: ci/tests.sh and ci/sanitizers.sh need it"

cargo --version
for tool in cargo-nextest cargo-deny cargo-fuzz cargo-llvm-cov cargo-shear taplo typos; do
    case $tool in
    cargo-nextest) version=$("$tool" nextest --version) ;;
    cargo-llvm-cov) version=$("$tool" llvm-cov --version) ;;
    *) version=$("$tool" --version) ;;
    esac
    echo "${version%%$'\n'*}"
done
