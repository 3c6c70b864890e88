"""Command -> lines of the examples in its help. A test parses each of them."""

from __future__ import annotations

EXAMPLES = {
    "": (
        "ipexctl init node1 node2",
        "ipexctl doctor && ipexctl install",
        "ipexctl run -ppn 2 train.py --lr 0.1",
    ),
    "init": (
        "ipexctl init node1 node2",
        "ipexctl init --yes -F lab/ssh_config     # all hosts in this file",
    ),
    "doctor": (
        "ipexctl doctor -f hosts",
        "ipexctl doctor -f hosts --level std -v   # measure, and explain findings",
        "ipexctl doctor -f hosts --fix            # run the fixes as a play",
        "ipexctl doctor -f hosts --html report.html",
    ),
    "install": (
        "ipexctl install -f hosts",
        "ipexctl install -f hosts --torch 2.13 --mpi openmpi --check",
        "ipexctl install -f hosts -r requirements.txt",
        "ipexctl install -f hosts --rollback      # return to the previous environment",
    ),
    "run": (
        "ipexctl run -f hosts -ppn 2 train.py --lr 0.1",
        "ipexctl run -d --name bert train.py      # return when all ranks have started",
        "ipexctl run torchrun --nproc-per-node 2 train.py",
        "ipexctl run --restarts 3 --spares node05 train.py",
        "ipexctl run --explain -n 8 train.py      # show the plan only",
    ),
    "bench": ("ipexctl bench allreduce -f hosts --json",),
    "bench allreduce": (
        "ipexctl bench allreduce -f hosts",
        "ipexctl bench allreduce -f hosts --max-size 16M --time 10s",
    ),
    "hosts": (
        "ipexctl hosts -f hosts",
        "ipexctl hosts -f hosts --to ansible",
    ),
    "trust": (
        "ipexctl trust -f hosts",
        "ipexctl trust -H node1,node2 --yes       # accept new keys without asking",
    ),
    "shell": (
        "ipexctl shell node1",
        "ipexctl shell node1 -- python -c 'import torch; print(torch.__version__)'",
    ),
    "stacks": (
        "ipexctl stacks",
        "ipexctl stacks --python 3.9 --isa avx2   # what fits such hosts",
    ),
    "bundle": (
        "ipexctl bundle -o stack.tar",
        "ipexctl bundle --python 3.11 --glibc 2.28 --torch 2.13",
        "ipexctl install -f hosts --bundle stack.tar",
    ),
    "ps": (
        "ipexctl ps",
        "ipexctl ps --all -f hosts                # include runs that have ended",
    ),
    "attach": (
        "ipexctl attach                           # the newest run",
        "ipexctl attach bert -f hosts             # a run by its name",
    ),
    "logs": (
        "ipexctl logs                             # the newest run",
        "ipexctl logs bert --follow --ranks 0",
        "ipexctl logs bert -n 20 --since 10m",
    ),
    "metrics": (
        "ipexctl metrics                          # the newest run",
        "ipexctl metrics bert --ranks 0 --csv > bert.csv",
    ),
    "tune": (
        "ipexctl tune -f hosts -ppn 2 train.py --lr 0.1",
        "ipexctl tune --budget 15m --allow numerics train.py",
        "ipexctl tune -y train.py                 # write ipexctl.toml without asking",
    ),
    "support": (
        "ipexctl support",
        "ipexctl support bert --logs              # add a run and its last lines",
    ),
    "report": (
        "ipexctl report                           # the newest run",
        "ipexctl report bert -o bert.html",
        "ipexctl report bert --compare 20260101-120000-abcdef",
        "ipexctl report bert --json",
    ),
    "why": (
        "ipexctl why bert                        # which rank hangs, or is slow",
        "ipexctl why @last --json",
    ),
    "fetch": (
        "ipexctl fetch bert 'out/*.pt'",
        "ipexctl fetch @last checkpoints --merge",
        "ipexctl fetch bert --checkpoint last -o ckpt",
    ),
    "checkpoints": (
        "ipexctl checkpoints bert",
        "ipexctl checkpoints @last --json",
    ),
    "stop": (
        "ipexctl stop bert",
        "ipexctl stop @last --time 2m             # time to save a checkpoint",
    ),
    "wait": (
        "ipexctl wait bert",
        "ipexctl wait bert && ipexctl fetch bert out",
    ),
    "rm": (
        "ipexctl rm bert --check",
        "ipexctl rm @last --yes",
    ),
    "play": (
        "ipexctl play prepare-debian -f hosts --check --diff",
        "ipexctl play train.yaml -f hosts -e lr=0.3",
        "ipexctl play train.yaml --list-steps",
    ),
    "data": (
        "ipexctl data push data/imagenet",
        "ipexctl run --data imagenet train.py",
    ),
    "data push": (
        "ipexctl data push data/imagenet",
        "ipexctl data push ~/.cache/huggingface --as hub",
    ),
    "data pull": (
        "ipexctl data pull hf:distilbert/distilbert-base-uncased",
        "ipexctl data pull hf:datasets/stanfordnlp/imdb --include '*.parquet'",
    ),
    "data ls": ("ipexctl data ls -f hosts",),
    "data rm": (
        "ipexctl data rm imagenet --check",
        "ipexctl data rm imagenet --yes",
    ),
    "env": (
        "ipexctl env ls",
        "ipexctl env exec -- python -c 'import torch; print(torch.__version__)'",
    ),
    "env ls": ("ipexctl env ls -f hosts",),
    "env diff": (
        "ipexctl env diff",
        "ipexctl env diff --full -l node1",
    ),
    "env exec": (
        "ipexctl env exec -- python -c 'import torch; print(torch.__version__)'",
        "ipexctl env exec -l node1 -- sh -c 'env | sort'",
    ),
    "env rm": (
        "ipexctl env rm --unused --check",
        "ipexctl env rm 3f2a91c04d5e --yes",
    ),
    "prune": (
        "ipexctl prune --check",
        "ipexctl prune --runs 5 --yes             # keep the newest five runs",
    ),
    "remove": (
        "ipexctl remove --all --check",
        "ipexctl remove --all --here --also keys  # this machine's files as well",
    ),
    "explain": (
        "ipexctl explain NET-001",
        "ipexctl explain run.log",
        "ipexctl explain 'Address already in use'",
        "python train.py 2>&1 | ipexctl explain -",
    ),
    "migrate": (
        "ipexctl migrate train.py scripts/",
        "ipexctl migrate mpirun -n 4 -ppn 2 python train.py",
    ),
    "config": (
        "ipexctl config --show-origin",
        "ipexctl config --accept",
    ),
    "schema": (
        "ipexctl schema",
        "ipexctl schema settings > ipexctl.schema.json",
    ),
    "lab": (
        "ipexctl lab up -n 2",
        "ipexctl lab fault node02 unplug",
        "ipexctl lab down",
    ),
    "lab up": (
        "ipexctl lab up",
        "ipexctl lab up -n 2 --host node02:isa=amx,shm=64m",
    ),
    "lab status": ("ipexctl lab status",),
    "lab shell": (
        "ipexctl lab shell node01",
        "ipexctl lab shell node01 -- ip addr",
        "ipexctl lab shell node02 --root",
    ),
    "lab fault": ("ipexctl lab fault node02 freeze",),
    "lab heal": ("ipexctl lab heal node02",),
    "lab down": (
        "ipexctl lab down",
        "ipexctl lab down --all",
    ),
}  # fmt: skip
