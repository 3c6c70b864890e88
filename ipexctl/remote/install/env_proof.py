"""Prove that a new environment works: the locked versions are there, load in order, and train."""

import json
import os
import re

from ipexctl.common.install_answers import EnvProof
from ipexctl.common.processes import fields_of
from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote import child_processes, scratch_folder
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_drift
from ipexctl.remote.install.env_drift import normalized_name

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

NOT_MEANT = frozenset(
    ("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks")
)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MARK = "ipexctl-proof:"
TIMEOUT = 180
BUSY_TIMES = 3  # as long on a host whose CPUs are all taken
BF16 = frozenset(("avx512bw", "avx512dq", "avx512vl"))  # what IPEX requires for bf16

# Read by the environment's own Python, which can be 3.6. argv: rendezvous, dtype, modules, then
# after "--" other requested modules; "?" before those that may fail.
PROOF = """
import faulthandler, gc, importlib, json, os, sys
faulthandler.enable()  # a crash names its signal, and the line that imported what crashed
gc.disable()  # a tenth of an import of torch, and this ends soon
def at(step):
    sys.stderr.write("ipexctl-proof: %s\\n" % step)
    sys.stderr.flush()
    at.step = step
    set_state(step)
at.state = None
def wait_for_bytecode(mark):
    "A busy host has no CPU for two ranks that compile the same 900 files at the same time."
    import time
    with open("/proc/loadavg") as file:
        running = int(file.read().split()[3].split("/")[0])
    while running > os.cpu_count() and not os.path.exists(mark):
        time.sleep(0.05)
def open_state(rank):
    "The step of a rank, in a file that is locked while it lives: a crash says nothing itself."
    import fcntl
    path = sys.argv[1] + ".rank%d" % rank
    at.state = open(path + ".new", "w")
    try:
        fcntl.flock(at.state, fcntl.LOCK_EX)
    except OSError:
        return  # no locks on this file system: this rank is not watched
    os.rename(path + ".new", path)
def set_state(step):
    if at.state:
        at.state.seek(0)
        at.state.write(step.ljust(100))
        at.state.flush()
def end_with_others(rank, size):
    "A launcher may leave ranks alone whose neighbour has failed; they would wait for it."
    import fcntl, time
    while True:
        for other in set(range(size)) - {rank}:
            try:
                with open(sys.argv[1] + ".rank%d" % other) as file:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    step = file.read().strip()
            except OSError:
                continue  # not started, or alive
            if step != "done":
                if step:
                    at("failed at %s, where rank %d crashed" % (step, other))
                    set_state("")
                os._exit(1)
        time.sleep(0.1)
def prove():
    loaded = {}
    rank = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", 0)))
    size = int(os.environ.get("PMI_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", 1)))
    if size > 1:
        import threading
        open_state(rank)
        threading.Thread(target=end_with_others, args=(rank, size), daemon=True).start()
    if rank:
        wait_for_bytecode(sys.argv[1] + ".loaded")
    words = sys.argv[3:]
    cut = words.index("--") if "--" in words else len(words)
    for name in words[:cut]:
        at("import " + name)
        loaded[name] = importlib.import_module(name)
    for name in [] if rank else words[cut + 1:]:
        at("import " + name.lstrip("?"))
        try:
            importlib.import_module(name.lstrip("?"))
        except Exception:
            if name[0] != "?":
                raise
    if not rank:
        open(sys.argv[1] + ".loaded", "w").close()
    torch = loaded["torch"]
    ipex = loaded.get("intel_extension_for_pytorch")
    at("training step")
    x = torch.ones(64, 64, requires_grad=True)
    (x @ x).sum().backward()
    assert float(x.grad[0, 0]) == 128.0, "backward gave %r" % (x.grad[0, 0],)
    if ipex:
        at("training step with ipex.optimize in " + sys.argv[2])
        with_ipex(torch, ipex, sys.argv[2] == "bf16")
    total = float(rank)
    if size > 1:
        at("all_reduce")
        import torch.distributed as dist
        there = "file://" + sys.argv[1]
        dist.init_process_group("gloo", init_method=there, rank=rank, world_size=size)
        t = torch.tensor([float(rank)])
        dist.all_reduce(t)
        total = float(t)
        dist.destroy_process_group()
    assert total == size * (size - 1) / 2, "all_reduce gave %r" % (total,)
    if rank == 0:
        found = {"torch": torch.__version__, "ranks": size, "step": sys.argv[2] if ipex else ""}
        print(json.dumps(found), flush=True)
def with_ipex(torch, ipex, bf16):
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dtype = torch.bfloat16 if bf16 else torch.float32
    model, optimizer = ipex.optimize(model, dtype=dtype, optimizer=optimizer)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            y = model(torch.ones(16, 64))
        loss = (y.float() * y.float()).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert 0 < losses[1] < losses[0], "the loss went from %r to %r" % tuple(losses)
try:
    prove()
except BaseException:
    import traceback
    traceback.print_exc()
    at("failed at " + at.step)
    set_state("")  # it is said
    os._exit(1)
set_state("done")
os._exit(0)  # torch's threads can abort an interpreter that ends; that would prove nothing
"""


def prove_environment(
    call: "Call",
    env: str,
    mpirun: "list[str]",
    modules: "list[tuple[str, str, str]]",
    requested: "list[tuple[str, str]]",
    variables: "dict[str, str]",
) -> EnvProof:
    """Return what was proved; a failure names its step.

    `requested`: (distribution, version) of those whose modules are imported, too.
    """
    packages = env_drift.list_packages(env)
    for dist, version in [row[1:] for row in modules] + requested:
        require_version(packages, dist, version)
    locked = [name for name, _, _ in modules]
    extra = [n for dist, _ in requested for n in import_names(env, dist) if n not in locked]
    folder = scratch_folder.make_scratch_folder("proof-")
    try:
        rendezvous = os.path.join(folder, "rendezvous")
        command = proof_command(env, rendezvous, locked + ["--"] + extra, mpirun)
        variables = dict(variables, TMPDIR=folder)  # Open MPI leaves files there when it is killed
        output = run_patiently(call, command, variables)
        shown = json.loads(output.strip().splitlines()[-1])
        shown["modules"] = [[name, version] for name, _, version in modules]
        shown["imported"] = [name for name in extra if not name.startswith("?")]
        return EnvProof.read(shown)
    except (ValueError, IndexError, TypeError):
        raise Failure(
            "the test of the new environment printed unexpected output",
            output[-500:],
            slug="proof-unreadable",
        ) from None
    except Failure as e:
        raise proof_failure(e) from None
    finally:
        scratch_folder.remove_scratch_folder(folder)


def run_patiently(call: "Call", command: "list[str]", variables: "dict[str, str]") -> str:
    """Run the test of an environment. On a busy host it may take longer than it should, once."""
    try:
        return child_processes.run_program(call, command, variables, TIMEOUT)
    except Failure as e:
        if e.slug != "command-timeout" or not is_busy():
            raise
    try:
        return child_processes.run_program(call, command, variables, TIMEOUT * BUSY_TIMES)
    except Failure as e:
        if e.slug != "command-timeout":
            raise
        raise Failure(
            e.what,
            "the host is busy: its load average is %.0f on %d CPUs"
            % (os.getloadavg()[0], os.cpu_count() or 1),
            "ipexctl install   # when it is less busy: what was built is used",
            slug="command-timeout",
        ) from None


def is_busy() -> bool:
    return os.getloadavg()[0] > (os.cpu_count() or 1)


def import_names(env: str, dist: str) -> "list[str]":
    """Return the modules of an installed distribution, by its RECORD. The one with its name must be
    importable, or all if none has it; others get a "?": they may need what is not installed."""
    names = sorted(public_modules(env, normalized_name(dist)))
    namesakes = [
        name for name in names if normalized_name(name.replace(".", "-")) == normalized_name(dist)
    ]
    return [name if name in (namesakes or names) else "?" + name for name in names]


def public_modules(env: str, dist: str) -> "set[str]":
    """Return the topmost packages and modules, without tests and private ones."""
    packages, modules = set(), set()
    for info in env_drift.dist_infos(env):
        if normalized_name(os.path.basename(info).partition("-")[0]) != dist:
            continue
        for path, _, _ in env_drift.record_rows(info):
            folder, _, name = path.rpartition("/")
            if name == "__init__.py":
                packages.add(folder.replace("/", "."))
            elif not folder and name.endswith((".py", ".so")):
                modules.add(name.partition(".")[0])
    for name in packages:
        parts = name.split(".")
        if not any(".".join(parts[:n]) in packages for n in range(1, len(parts))):
            modules.add(name)
    return {name for name in modules if is_public(name.split("."))}


def is_public(words: "list[str]") -> bool:
    return all(NAME.match(word) and word[0] != "_" and word not in NOT_MEANT for word in words)


def require_version(packages: "dict[str, str]", dist: str, version: str) -> None:
    """Check a version by metadata: a module's own version attribute is not reliable."""
    actual = packages.get(normalized_name(dist), "")
    if actual.lower() != version.lower():
        what = "the new environment has %s %s" % (dist, actual) if actual else "there is no " + dist
        raise Failure("%s, the lock requires %s" % (what, version), slug="package-differs")


def proof_command(
    env: str, rendezvous: str, names: "list[str]", mpirun: "list[str]"
) -> "list[str]":
    """Return the command. `mpirun`: the words before the program; empty: a single process."""
    python = [
        os.path.join(env, "bin", "python"),
        "-I",
        "-c",
        PROOF,
        rendezvous,
        choose_proof_dtype(),
    ] + names
    return mpirun + python


def choose_proof_dtype() -> str:
    """Return bf16 where IPEX supports it: without AVX-512 its `optimize` refuses bf16."""
    flags = fields_of(read_text("/proc/cpuinfo", until=b"\n\n")).get("flags", "")
    return "bf16" if set(flags.split()) >= BF16 else "fp32"


def proof_failure(e: "Failure") -> "Failure":
    """Return the failure with its step. A crash prints nothing; then the last mark names it."""
    lines = e.why.splitlines()
    marks = [line.partition(MARK)[2].strip() for line in lines if MARK in line]
    failed = [mark[len("failed at ") :] for mark in marks if mark.startswith("failed at ")]
    if not marks:
        return e
    why = "\n".join([line for line in lines if MARK not in line] + ([] if failed else [e.what]))
    step = (failed or marks[-1:])[0]
    return Failure(
        "the new environment failed its test at: " + step, why, e.hint, slug="env-test-failed"
    )
