# Shared by the scripts beside it, which source it: where the repository is, and how cargo is run.
# shellcheck shell=bash

repository=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
program=${0##*/}

fail() {
    echo "$program: $*" >&2
    exit 1
}

# Root, because network namespaces, packet sockets and packages are root's.
need_root() {
    ((EUID == 0)) || fail "network namespaces need root: run sudo $0"
}

# Runs cargo in the repository. Under sudo as the user who called sudo, so that target/ stays
# theirs; and found where rustup puts it, as root's PATH seldom leads there.
cargo_() {
    local home=$HOME as=()
    if ((EUID == 0)) && [[ -n ${SUDO_USER-} && $SUDO_USER != root ]]; then
        home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
        as=(sudo -u "$SUDO_USER" -H env "PATH=$home/.cargo/bin:$PATH")
    fi
    local cargo
    if [[ -x $home/.cargo/bin/cargo ]]; then
        cargo=$home/.cargo/bin/cargo
    else
        cargo=$(command -v cargo) || fail "there is no cargo in PATH nor in $home/.cargo/bin: install Rust (rustup.rs)"
    fi
    (cd "$repository" && PATH="${cargo%/*}:$PATH" "${as[@]}" "$cargo" "$@")
}

# Where cargo builds: the repository's target/, unless the environment says otherwise.
target_folder() {
    echo "${CARGO_TARGET_DIR:-$repository/target}"
}
