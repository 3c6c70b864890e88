#!/usr/bin/env bash
# usage: examples/demo.sh [full|user|flat]      how real the hosts are: docs/lab.md
#
# The quick start on practice hosts: three real sshd hosts on this machine, then doctor, install and
# run. Root is not needed. The hosts are taken down however this ends.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
started=$SECONDS
lab=demo-$$
# A project of its own, as a user has one: the script and the lock that install writes beside it.
project=$(mktemp -d "${TMPDIR:-/tmp}/ipexctl-demo.XXXXXX")
mkdir "$project/examples"
cp examples/train_ddp.py "$project/examples/"
cd "$project"

step() {
    echo
    printf '$ %s\n' "$*"
    "$@"
}
take_down() {
    local code=$?
    trap - EXIT
    [[ ! -e lab ]] || step ipexctl lab down --name "$lab" || code=1
    rm -rf "$project"
    echo
    if ((code)); then
        echo "The demo failed with exit code $code after $((SECONDS - started)) s."
    else
        echo "The demo took $((SECONDS - started)) s. Next, on practice hosts that stay:"
        echo
        echo "    cd $here && export PATH=\"\$PWD/.venv/bin:\$PATH\""
        echo "    ipexctl lab up -n 3"
        echo
        echo "It ends with the 'ipexctl init -F ...' to type in the folder of your training script, after"
        echo "which doctor, install and run need neither -f nor -F there."
        echo
        echo "or on your own machines, in the folder of your training script:"
        echo
        echo "    ipexctl init HOST1 HOST2      # writes a hostfile; any name that ssh knows"
        echo "    ipexctl doctor"
        echo "    ipexctl install"
        echo "    ipexctl run train.py"
    fi
    exit "$code"
}

trap take_down EXIT
trap 'exit 130' INT TERM

# One host has a network card of another name.
# --owner: the practice hosts end with this script, even if it is killed.
step ipexctl lab up --name "$lab" --owner $$ -n 3 --host node02:nic=ens5 \
    ${1:+--rung "$1"}
mkdir lab
cp "${XDG_STATE_HOME:-$HOME/.local/state}/ipexctl/labs/$lab"/{hostfile,ssh_config} lab/
hosts=(-f lab/hostfile --ssh-config lab/ssh_config)

step ipexctl doctor "${hosts[@]}"
if ipexctl lab status --name "$lab" --json | grep -q '"rung": "flat"'; then
    echo
    echo "The findings are correct: these hosts are one machine. The demo continues anyway."
fi
step ipexctl install "${hosts[@]}" -y
step ipexctl run "${hosts[@]}" -n 6 -ppn 2 examples/train_ddp.py --bf16 --epochs 5

# The run continues on the hosts without this command; any machine can ask about it.
step ipexctl run "${hosts[@]}" -d --name night -n 3 examples/train_ddp.py --bf16 --epochs 1000
for _ in {1..20}; do # until it trains
    ipexctl logs night "${hosts[@]/#-f/--hostfile}" -n 1 2>/dev/null | grep -q loss && break
    sleep 1
done
step ipexctl ps "${hosts[@]}"
step ipexctl logs night "${hosts[@]/#-f/--hostfile}" -n 1
step ipexctl stop night "${hosts[@]}"
