# shellcheck shell=bash
# What the stages share. Sourced, not run: every stage starts with `. "$(dirname "$0")/lib.sh"`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Some cargo tools and rustup would otherwise fetch parts of toolchains by themselves.
export CARGO_LLVM_COV_SETUP=no RUSTUP_AUTO_INSTALL=0
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
export PATH="$PWD/target/tools/bin:$PATH"

# Ends the stage with a reason.
fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

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
