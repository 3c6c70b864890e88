#!/usr/bin/env bash
# From python3, git and make to a machine that can run the tests and the demo.
# Says one line for each thing it does, and nothing when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }
die() { echo "setup: $*" >&2; exit 1; }

# --- what the system must have -------------------------------------------------------------------

missing=()
wished=() # without them practice hosts simulate less (docs/lab.md)
has() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }
need() { has "$2" || missing+=("$1"); } # PACKAGE COMMAND: the package is missing when its command is
wish() { has "$2" || wished+=("$1"); }
command -v python3 >/dev/null || die "python3 is missing; install Python 3.10 or newer first."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "python3 is $(python3 -V 2>&1 | cut -d' ' -f2), but ipexctl needs 3.10 or newer."
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
need openssh-client ssh
need openssh-server sshd
need procps ps
wish iproute2 ip
wish util-linux unshare
wish mount mount
wish e2fsprogs mkfs.ext4
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    wish tcsh tcsh # login shells that only tests want
    wish fish fish
    wish sudo sudo
    missing+=("${wished[@]}")
elif ((${#wished[@]})); then
    say "not here: ${wished[*]}; practice hosts simulate less without them"
fi

if ((${#missing[@]})); then
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        die "missing here: ${missing[*]}. Install these packages (Debian and Ubuntu: sudo apt-get install ${missing[*]}), then run this again."
    fi
    say "installing ${missing[*]} with apt-get"
    # An sshd of the system's own is not wanted: the practice hosts start theirs themselves.
    policy=/usr/sbin/policy-rc.d
    if [[ " ${missing[*]} " == *" openssh-server "* && ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        die "apt-get could not install ${missing[*]}; its full output is in $log."
    fi
    rm -f "$log"
    if [[ " ${missing[*]} " == *" openssh-server "* && -d /run/systemd/system ]]; then
        systemctl disable --quiet ssh.service ssh.socket 2>/dev/null || true
    fi
fi

# --- the virtualenv, rebuilt when what it is made from changes -----------------------------------

wanted=$({ python3 -c 'import sys; print(sys.version)'; pwd; cat pyproject.toml tools/constraints.txt; } | sha256sum | cut -d' ' -f1)
if [[ $(cat .venv/.made-from 2>/dev/null) != "$wanted" ]]; then
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        say "creating the virtualenv .venv"
        rm -rf .venv
        python3 -m venv .venv
    fi
    say "installing ipexctl and its development tools into .venv with pip"
    pip() { .venv/bin/python -m pip install -qq --disable-pip-version-check "$@" </dev/null; }
    { pip --require-hashes -r tools/constraints.txt && pip --no-deps --no-build-isolation -e .; } ||
        die "pip could not install ipexctl into .venv; its message is above."
    echo "$wanted" >.venv/.made-from
fi
