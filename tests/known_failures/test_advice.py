"""The advice of `ipexctl explain`: real error texts, and lines of public threads, get the right
entry, and the commands that the entries name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from ipexctl.base import toml
from ipexctl.base.wrapping import wrapped
from ipexctl.cli import app
from ipexctl.explain.causes import causes
from ipexctl.explain.causes.causes import Cause
from ipexctl.shipped_tables import failures

LINES = [
    line
    for name in (
        "lines.toml",
        "lines_frameworks.toml",
        "lines_more.toml",
        "lines_precise.toml",
        "lines_threads.toml",
    )
    for line in toml.loads(Path(__file__).with_name(name).read_text("utf-8"))["line"]
]
LOOK_ALIKES = [
    (slug, text)
    for slug, texts in toml.loads(
        Path(__file__).with_name("look_alikes.toml").read_text("utf-8")
    ).items()
    for text in texts
]
KNOWN = {c.slug: c for c in failures()}
LIBFABRIC = "MPIDI_OFI_mpi_init_hook(1594): Other MPI error"


def cause_of(text: str) -> str:
    found = causes.match(text.splitlines(), failures())
    return found.cause.slug if found else ""


def test_every_line_of_a_public_thread_gets_its_entry() -> None:
    found = [(cause_of(line["text"]), line) for line in LINES]
    assert [(slug, line) for slug, line in found if slug != line["cause"]] == []
    assert len(found) > 700


@pytest.mark.parametrize(
    ("text", "slug", "fix"),
    [
        # packages
        ("ModuleNotFoundError: No module named 'transformers'", "module-missing",
         "ipexctl install -r requirements.txt"),
        ("/usr/bin/python3: No module named accelerate", "module-missing", "install -r"),
        ("ModuleNotFoundError: No module named 'my_utils.data'", "module-missing", "install -r"),
        ("ModuleNotFoundError: No module named 'torch'", "torch-not-installed", "ipexctl install"),
        ("ModuleNotFoundError: No module named 'intel_extension_for_pytorch'", "ipex-missing",
         "torch.autocast('cpu', dtype=torch.bfloat16)"),
        ("ModuleNotFoundError: No module named 'intel_extension_for_pytorch'", "ipex-missing",
         "ipexctl install --stack ipex"),
        ("ModuleNotFoundError: No module named 'distutils'", "python-removed-module", "--python"),
        # transformers and accelerate
        ("run_clm.py: error: argument --ddp_backend: invalid choice: 'ccl' (choose from nccl,"
         " gloo, mpi, xccl)", "ccl-removed", "--ddp_backend gloo"),
        ("ValueError: Your setup doesn't support bf16/gpu. You need to assign use_cpu if you want"
         " to train the model on CPU.", "trainer-use-cpu", "--use_cpu"),
        ("ValueError: fp16 mixed precision requires a GPU (not 'cpu').", "fp16-on-cpu", "--bf16"),
        # the network of MPI
        ("  Message:    connect() to 169.254.140.13:1026 failed\n"
         "  Error:      Resource temporarily unavailable (11)", "link-local", "nic=NIC"),
        ("[bb2a][[4455,1],95][btl_tcp_endpoint.c:818:mca_btl_tcp_endpoint_complete_connect]"
         " connect() to 169.254.95.120 failed: Connection refused (111)", "link-local",
         "btl_tcp_if_include"),
        (f"{LIBFABRIC}\nSegmentation fault (core dumped)", "mpi-init-failed", "FI_TCP_IFACE"),
        (f"Abort(1090959) on node 0: Fatal error in PMPI_Init: Other MPI error, error stack:\n"
         f"{LIBFABRIC}\nrank 0 was ended by signal 11 (SIGSEGV)", "mpi-init-failed",
         "FI_PROVIDER=tcp"),
        (f"{LIBFABRIC}\nfind_provider(170).........: OFI fi_getinfo() failure",
         "no-fabric-provider", "FI_PROVIDER=tcp"),
        ("MPIDI_NM_mpi_init_hook(575): **ofid_getinfo ofi_init.h 575 MPIDI_NM_mpi_init_hook No"
         " data available", "no-fabric-provider", "FI_PROVIDER=tcp"),
        ("[node01][[1,1],0][btl_tcp_component.c:966:mca_btl_tcp_component_create_listen] bind()"
         " failed: no port available in the range [8445..8450]", "mpi-port-taken", "--ports"),
        ("[node01][[1,1],0][btl_tcp_component.c:884:mca_btl_tcp_component_create_listen] bind()"
         " failed: Address already in use (98)", "mpi-port-taken", "--ports"),
        ("create_endpoint(1382): OFI EP enable failed (ofi_init.c:1382:create_endpoint:Address"
         " already in use)", "mpi-port-taken", "--ports"),
        ("There are not enough slots available in the system to satisfy the 8",
         "not-enough-slots", "slots="),
        ("mpirun does not support recursive calls", "mpirun-in-rank", "ipexctl run"),
        # addresses of rank 0
        ("The client socket has timed out after 60000ms while trying to connect to (127.0.0.1,"
         " 42649).", "local-store-gone", "first process"),
        ("[c10d] The client socket has timed out after 300000ms while trying to connect to"
         " (127.0.0.1, 0).", "local-store-gone", ""),
        ("[c10d] The client socket has failed to connect to [localhost]:51216 (errno: 111 -"
         " Connection refused).", "local-store-gone", ""),
        ("The client socket has timed out after 1800s while trying to connect to (127.0.0.1,"
         " 29500).", "master-loopback", "MASTER_ADDR"),
        ("The client socket has timed out after 600s while trying to connect to (192.168.6.2,"
         " 53489).", "master-unreachable", "ipexctl doctor"),
        ("[mpiexec@node01] HYDU_sock_get_iface_ip (utils/sock/sock.c:540): unable to find"
         " interface eth0", "interface-unknown", "Without IPv4"),
        # the hub
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution\n"
         "urllib3.exceptions.NameResolutionError: Failed to resolve 'hub.example' ([Errno -3]"
         " Temporary failure in name resolution)\n"
         "OSError: We couldn't connect to 'https://hub.example' to load the files, and couldn't"
         " find them in the cached files.", "hub-unreachable",
         "ipexctl data push ~/.cache/huggingface/hub --as models"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the"
         " disk cache and outgoing traffic has been disabled.", "hub-unreachable",
         "--data NAME"),
        ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://hub.example/api:"
         " offline mode is enabled.", "hub-unreachable", "--data NAME"),
        ("requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host="
         "'hub.example', port=443): Max retries exceeded with url: /api/models/a/b/revision/main",
         "hub-unreachable", "--data NAME"),
        ("httpx.ConnectError: [Errno -2] Name or service not known", "download-failed",
         "ipexctl data push"),
        # what a rank is not given
        ("bdb.BdbQuit", "breakpoint", "PYTHONBREAKPOINT=0"),
        ("EOFError: EOF when reading a line", "no-stdin", "--secret-env"),
        # PyTorch on CPUs
        ("RuntimeError: No backend type associated with device type cpu", "nccl-on-cpu", "gloo"),
        ("AssertionError: Torch not compiled with CUDA enabled", "cuda-on-cpu", "'gloo'"),
        ("AssertionError: Torch not compiled with CUDA enabled", "cuda-on-cpu", "device_ids"),
        ("ValueError: DistributedDataParallel device_ids and output_device arguments only work"
         " with single-device/multiple-device GPU modules or CPU modules, but got device_ids [0]",
         "ddp-device-ids", "DistributedDataParallel(model)"),
        ("  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 16 vs 4",
         "collectives-differ", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        ("failed (exitcode: -7) local_rank: 0 (pid: 41) of binary: /usr/bin/python3", "shm-full",
         "--shm-size"),
        ("RuntimeError: could not create a primitive", "onednn-primitive", "ONEDNN_VERBOSE"),
        ("RuntimeError: could not create a primitive descriptor for the matmul primitive",
         "onednn-primitive", "ONEDNN_VERBOSE"),
        ("torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in"
         " torch._inductor.config.cpp.cxx: (None, 'g++')", "no-compiler", "apt-get install g++"),
        ("torch._dynamo.exc.BackendCompilerFailed: InvalidCxxCompiler: Compiler: g++ is not"
         " found.", "no-compiler", "TORCHDYNAMO_DISABLE=1"),
        ("/bin/sh: 1: g++: not found", "no-compiler", "g++"),
        # oneCCL
        ("|CCL_ERROR| internal_kvs.cpp:606 kvs_init: connection time (120) >= limit (120)\n"
         "RuntimeError: oneCCL: atl_ofi_comm.cpp:81 atl_ofi_comm: EXCEPTION: init transport"
         " failed\nFailed to recv, got 0 bytes", "ccl-rendezvous", "CCL_KVS_IFACE=NIC"),
        ("|CCL_ERROR| atl_ofi.cpp:243 init: can't find suitable provider\n"
         "init transport failed", "no-fabric-provider", "FI_PROVIDER=tcp"),
        ("IndexError: map::at", "average-on-ccl", "ReduceOp.SUM"),
    ],
)  # fmt: skip
def test_the_advice_for_a_failure(text: str, slug: str, fix: str) -> None:
    assert cause_of(text) == slug
    assert fix in f"{KNOWN[slug].fix}; {KNOWN[slug].by_hand}"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   KILLED BY SIGNAL: 9"
         " (Killed)", "killed"),
        ("MPIDI_OFI_mpi_init_hook(1594):\nMissing hostname or invalid host/port description in"
         " business card", "wrong-mpirun"),
        ("RuntimeError: Caught ValueError in DataLoader worker process 0.\n"
         "DefaultCPUAllocator: can't allocate memory", "out-of-memory"),
        ("torch.distributed.DistNetworkError: Failed to recv, got 0 bytes\n"
         "ModuleNotFoundError: No module named 'sentencepiece'", "module-missing"),
    ],
)  # fmt: skip
def test_a_report_of_a_failure_gives_way_to_its_cause(text: str, slug: str) -> None:
    assert cause_of(text) == slug


@pytest.mark.parametrize(
    "text",
    [
        "connect() to 169.254.169.254 port 80",  # a cloud's metadata
        "Downloading shards: Resource temporarily unavailable, will retry",
        "HTTPConnectionPool(host='localhost', port=8080): read timed out",
        "INFO: waiting for clients to finish",
        "The installed version of bitsandbytes was compiled without GPU support.",
        "flash_attn is not installed, using the default attention",
        "CUDA is not available, using the CPU",
        "No GPU found, training on the CPU",
        "HF_HUB_OFFLINE=1",
        "huggingface/tokenizers: The current process just got forked, after parallelism has already"
        " been used. Disabling parallelism to avoid deadlocks...",
        "[INFO] [real_accelerator.py:203:get_accelerator] Setting ds_accelerator to cpu (auto"
        " detect)",
        " [WARNING]  cpu_adam cuda is missing or is incompatible with installed torch, only cpu ops"
        " can be compiled!",
        "Some weights of BertForSequenceClassification were not initialized from the model"
        " checkpoint at bert-base-uncased and are newly initialized: ['classifier.bias']",
        "torch._dynamo hit config.recompile_limit (8)",
        "In CPU autocast, but the target dtype is not supported. Disabling autocast.",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2",
        "OMP: Warning #96: Cannot form a team with 24 threads, using 1 instead.",
        "[c10d] The server socket cannot be initialized on [::]:29501 (errno: 97 - Address family"
        " not supported by protocol).",
    ],
)
def test_ordinary_lines_get_no_advice(text: str) -> None:
    assert cause_of(text) == ""


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
         "master-unreachable"),
        ("[pair.cc:799] gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:8416: Connection"
         " refused", "gloo-loopback"),
        ("mpirun was unable to launch the specified application as it could not find an"
         " executable:", "python-not-there"),
        ("ssh: connect to host 10.0.0.5 port 2222: Operation timed out", "ssh-refused"),
        ("ssh_exchange_identification: Connection closed by remote host", "ssh-closed"),
        ("An ORTE daemon has unexpectedly failed after launch and before", "mpirun-connect-back"),
        ("ImportError: libtorch_cpu.so: cannot open shared object file: No such file or directory",
         "abi-mismatch"),
        ("ImportError: libgomp-a3.so.1: cannot allocate memory in static TLS block", "static-tls"),
        ("ValueError: numpy.dtype size changed, may indicate binary incompatibility", "numpy-two"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.", "out-of-memory"),
        ("AttributeError: 'Namespace' object has no attribute 'ipex'", "accelerate-keys"),
        ("double free or corruption (!prev)", "segmentation-fault"),
        ("/bin/sh: deepspeed: command not found", "program-not-found"),
        ("KeyError: 'LOCAL_RANK'", "rank-unset"),
        ("RuntimeError: Error building extension 'shm_comm'", "compile-failed"),
        ("prted has detected an attempt to run as root.", "root-openmpi"),
        ("OSError: libmkl_rt.so.2: cannot open shared object file: No such file or directory",
         "mkl-missing"),
        ("fatal error: mpi.h: No such file or directory", "mpi-headers"),
        ("python: can't open file 'train.py--cfg': [Errno 2] No such file or directory",
         "command-mangled"),
        ("TypeError: forward() got multiple values for keyword argument 'use_cache'",
         "argument-twice"),
        ("`MPSAccelerator` can not run on your system since the accelerator is not available.",
         "lightning-strategy"),
    ],
)  # fmt: skip
def test_other_versions_and_programs_say_the_same_in_other_words(text: str, slug: str) -> None:
    assert cause_of(text) == slug


# Lines that look alike and have other causes: one answer for all of them was wrong for some.
def test_lines_that_look_alike_get_the_entry_of_their_own_cause() -> None:
    found = [(cause_of(text), slug, text) for slug, text in LOOK_ALIKES]
    assert [wrong for wrong in found if wrong[0] != wrong[1]] == []
    assert len(found) > 250


# --- the commands in the advice ------------------------------------------------------------------

_COMMAND = re.compile(r"\bipexctl ([a-z]+)((?: [^\s;,)`]+)*)")


def _told() -> list[tuple[Cause, str, str]]:
    said = [(c, text) for c in failures() for text in (c.fix, c.by_hand)]
    return [(c, m[1], m[2]) for c, text in said for m in _COMMAND.finditer(text)]


def test_advice_is_three_lines_at_most() -> None:
    advice = [(c.slug, text) for c in KNOWN.values() for text in (c.fix, c.by_hand)]
    indent = " " * len("  try: ")
    assert [a for a in advice if len(wrapped(f"  try: {a[1]}", 100, indent)) > 3] == []
    assert [a for a in advice if "\n" in a[1]] == []


def test_every_command_and_option_of_the_advice_exists() -> None:
    program: Any = typer.main.get_command(app)
    for cause, name, rest in _told():
        if name in ("itself", "go"):  # "options of ipexctl go before the script's name"
            continue
        command = program.commands.get(name)
        assert command, f"{cause.slug}: ipexctl {name}"
        if hasattr(command, "commands"):
            command = command.commands[rest.split()[0]]
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        before = re.split(r" SCRIPT| \.\.\.| and | with ", rest)[0]
        used = re.findall(r"(?<= )--?[a-z][a-z-]*", before)
        assert set(used) <= options, (cause.slug, rest)
