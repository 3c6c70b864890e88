"""Stock torch and Intel MPI onto four lab hosts: ipexctl beside Ansible with pip and with uv.

    python benchmarks/install.py --tools DIR [--hosts 4] [--rounds 1] [--only install,pip,uv]
    python benchmarks/install.py --tools DIR --hosts 8 --uplink 100mbit --only install,node01

Needs root (for the lab); DIR is the `bin` of an environment with ansible-core. All sides take the
same wheels of the same versions from one HTTP server on this machine: ipexctl once, pip and uv
from each host. All end with the same proof: two ranks under mpirun train a step and add up.

cold: nothing on the hosts, empty stores and caches. warm: the environment is gone, what each tool
keeps of its wheels is there. unchanged: once more, with nothing to do. built: when the proof of the
last host begins. pip compiles bytecode while it installs, its default; uv and ipexctl leave that to
the first import, which is in the proof. Hosts and controller share this machine's CPUs. Ratios
below 1 mean that ipexctl needs less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import bytecode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from ipexctl.blobs.blob_store import default_store  # noqa: E402
from ipexctl.lab import Lab, LabSpec  # noqa: E402
from ipexctl.lab.cluster.lab_network import limit_rate  # noqa: E402
from ipexctl.local.project_lock import read_lock  # noqa: E402
from ipexctl.stack.lock_file import Lock  # noqa: E402
from tests.packages.served import served  # noqa: E402

TRACE, PROOF_OP = "trace.json", "install.environments.prove"
STATES = ("cold", "warm", "unchanged")
ENV = "/home/trainer/env"
PROOF = """
import os, torch, torch.distributed as dist
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
x = torch.ones(64, 64, requires_grad=True)
(x @ x).sum().backward()
dist.init_process_group("gloo", init_method="file:///tmp/rendezvous", rank=rank, world_size=size)
t = torch.tensor([float(rank)])
dist.all_reduce(t)
assert float(t) == 1.0
os._exit(0)
"""
PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: environment
      {make}
      args: {{creates: {env}/bin/python}}
    - name: requirements
      copy: {{src: {requirements}, dest: /home/trainer/requirements.txt}}
    - name: packages
      {fill}
    - name: proof
      shell: "rm -f /tmp/rendezvous; {env}/bin/mpirun -n 2 {env}/bin/python /home/trainer/proof.py"
      environment:
        PATH: {env}/bin:/usr/bin:/bin
        OMP_NUM_THREADS: "1"
        GLOO_SOCKET_IFNAME: lo
        I_MPI_HYDRA_BOOTSTRAP: fork
        I_MPI_HYDRA_IFACE: lo
        I_MPI_FABRICS: shm
        I_MPI_PIN: "0"
      when: packages is changed
"""
PIP = (
    "command: /usr/bin/python3 -m venv {env}",
    "pip: {{requirements: /home/trainer/requirements.txt, virtualenv: {env}, extra_args:"
    " '--no-deps --index-url {index} --trusted-host {host}'}}\n      register: packages",
)
UV = (
    "command: /home/trainer/uv venv --python /usr/bin/python3 {env}",
    "command: /home/trainer/uv pip install --python {env}/bin/python --no-deps --index-url {index}"
    " -r /home/trainer/requirements.txt\n      register: packages\n"
    "      changed_when: \"'Installed' in packages.stderr\"",
)


@dataclass(frozen=True)
class Tool:
    """`begins`: how a line says that the proof begins, of Ansible; for ipexctl the operation, which
    is in its trace."""

    name: str
    argv: tuple[str, ...]
    begins: str
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sample:
    wall: float
    built: float


def prepare(work: Path, lab: Lab) -> Lock:
    """One install that is not counted: it fills the store and makes the lock."""
    subprocess.run(_ipexctl(lab), cwd=work, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    lock = read_lock(work / "ipexctl.lock")
    assert lock
    store = default_store(os.environ)
    (work / "wheels").mkdir()
    for package in lock.files:
        (work / "wheels" / package.file).symlink_to(store.path(package.blob))
    return lock


def _ipexctl(lab: Lab) -> tuple[str, ...]:
    files = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    return (sys.executable, "-m", "ipexctl", "install", "-y", "--stack", "stock", *files)


def ipexctl(work: Path, lab: Lab, index: str, *more: str) -> Tool:
    """Its own store, and nothing but the index of the run."""
    env = {"XDG_CACHE_HOME": str(work / "cache"), "UV_CACHE_DIR": str(work / "cache/uv")}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PYTHONPATH": str(HERE.parent)}
    argv = (*_ipexctl(lab), "--index-url", index, *more)
    env["IPEXCTL_TRACE"] = str(work / TRACE)
    return Tool(" ".join(("ipexctl install", *more)), argv, PROOF_OP, tuple(env.items()))


def ansible(name: str, tasks: tuple[str, str], work: Path, lab: Lab, index: str) -> Tool:
    folder = work / name.split()[-1]
    folder.mkdir()
    place = {"env": ENV, "index": index, "host": index.split("/")[2].split(":")[0]}
    make, fill = (text.format(**place) for text in tasks)
    requirements = work / "requirements.txt"
    text = PLAYBOOK.format(make=make, fill=fill, env=ENV, requirements=requirements)
    (folder / "play.yml").write_text(text)
    (folder / "ansible.cfg").write_text("")
    inventory = "\n".join(lab.hosts) + "\n[all:vars]\nansible_ssh_common_args=-F "
    inventory += f"{lab.ssh_config}\nansible_python_interpreter=/usr/bin/python3\n"
    (folder / "hosts.ini").write_text(inventory)
    env = {"ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(folder / "tmp")}
    env |= {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp")}
    argv = ("ansible-playbook", "-i", str(folder / "hosts.ini"), str(folder / "play.yml"))
    return Tool(name, argv, "TASK [proof]", tuple(env.items()))


def empty(work: Path, lab: Lab, state: str) -> None:
    """Brings everything into the state that the name says."""
    if state == "unchanged":
        return
    gone = ["~/env", "~/.ipexctl/envs", "~/.ipexctl/current", "~/.ipexctl/previous"]
    if state == "cold":
        gone += ["~/.ipexctl", "~/.cache", "~/.ansible", "~/.local"]
        subprocess.run(["rm", "-rf", str(work / "cache"), str(work / "ipexctl.lock")], check=True)
    for host in lab.hosts:
        done = lab.run_in(
            host, ["sh", "-c", f"rm -rf {' '.join(gone)}"], user="trainer", timeout=600
        )
        assert done.returncode == 0, done.stderr


def measure(tool: Tool, work: Path) -> Sample:
    began, built = time.monotonic(), 0.0
    log = (work / f"{tool.name.replace(' ', '-')}.out").open("a")
    process = subprocess.Popen(
        tool.argv, cwd=work, env={**os.environ, **dict(tool.env)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout
    for line in process.stdout:
        log.write(f"{time.monotonic() - began:7.2f} {line}")
        if tool.begins in line:  # of several hosts the last one counts
            built = time.monotonic() - began
    wall = time.monotonic() - began
    if tool.begins == PROOF_OP:
        events = json.loads((work / TRACE).read_text("utf-8"))["traceEvents"]
        built = max((e["ts"] / 1e6 for e in events if e["name"] == PROOF_OP), default=0.0)
    log.close()
    if process.wait():
        raise SystemExit(f"{tool.name} failed:\n" + Path(log.name).read_text()[-9000:])
    for socket in work.glob("*/cp/*"):  # Ansible's ssh masters: each run begins cold
        close = ["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "none"]
        subprocess.run(close, capture_output=True, check=False)
    return Sample(wall, built or wall)


def table(found: dict[tuple[str, str], list[Sample]], names: list[str]) -> str:
    lines = ["| tool | state | wall s | until built s | ipexctl's wall / its | built / its |"]
    lines.append("|---|---|---|---|---|---|")
    for state in dict.fromkeys(state for _, state in found):
        ours = _median(found[names[0], state])
        for name in names:
            its = _median(found[name, state])
            lines.append(
                f"| {name} | {state} | {its.wall:.1f} | {its.built:.1f} "
                f"| {ours.wall / its.wall:.2f} | {ours.built / its.built:.2f} |"
            )
    return "\n".join(lines)


def _median(samples: list[Sample]) -> Sample:
    return Sample(
        statistics.median(s.wall for s in samples), statistics.median(s.built for s in samples)
    )


def put_tools(lab: Lab, work: Path, lock: Lock, tools: Path) -> None:
    """What is not measured: uv itself and the proof are on the hosts already."""
    lines = "".join(f"{p.name}=={p.version}\n" for p in lock.packages)
    (work / "requirements.txt").write_text(lines)
    for host in lab.hosts.values():
        (host.files / "uv").write_bytes((tools / "uv").read_bytes())
        (host.files / "uv").chmod(0o755)
        (host.files / "proof.py").write_text(PROOF)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tools", type=Path, required=True, help="bin folder with ansible-playbook"
    )
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--states", default=",".join(STATES))
    parser.add_argument("--uplink", default="", help="such as 100mbit: from here to all hosts")
    parser.add_argument("--folder", help="where the hosts' homes are, such as /dev/shm")
    args = parser.parse_args()
    os.environ["PATH"] = f"{args.tools}:{os.environ['PATH']}"
    from ipexctl.packages.uv import find_uv

    bytecode.make()
    with tempfile.TemporaryDirectory(prefix="ipexctl-bench-", dir=args.folder) as folder:
        work = Path(folder)
        spec = LabSpec.plain(args.hosts, name="bench")
        lab = Lab.up(spec, owner=os.getpid(), root=work / "labs")
        if args.uplink:
            limit_rate(lab.link, args.uplink)
        address = next(iter(lab.hosts.values())).address.rsplit(".", 1)[0] + ".1"
        try:
            lock = prepare(work, lab)
            put_tools(lab, work, lock, Path(find_uv(os.environ)).parent)
            with served(work / "wheels", address) as index:
                for package in lock.packages:  # an index has its files' hashes ready
                    index.page(package.name)
                tools = [
                    ipexctl(work, lab, index.index),
                    ipexctl(work, lab, index.index, "--limit", next(iter(lab.hosts))),
                    ansible("ansible with pip", PIP, work, lab, index.index),
                    ansible("ansible with uv", UV, work, lab, index.index),
                ]
                wanted = args.only.split(",")
                tools = [t for t in tools if not args.only or t.name.split()[-1] in wanted]
                found: dict[tuple[str, str], list[Sample]] = {}
                for _ in range(args.rounds):
                    for tool in tools:
                        for state in args.states.split(","):
                            empty(work, lab, state)
                            sample = measure(tool, work)
                            print(tool.name, state, sample, file=sys.stderr, flush=True)
                            found.setdefault((tool.name, state), []).append(sample)
            print(f"{args.hosts} hosts, {args.rounds} rounds, {os.cpu_count()} CPUs for all\n")
            print(table(found, [t.name for t in tools]))
        finally:
            lab.down()


if __name__ == "__main__":
    main()
