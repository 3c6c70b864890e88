"""Imported by a rank's Python before the script: hosts write it as `sitecustomize`.

It lets `ipexctl why` look into the rank, imports the modules that options such as --compress need,
and then the user's own `sitecustomize`. Nothing in it may stop a rank.
In the folder of this file, PID.stacks gets the stacks of all threads on SIGNAL. Whenever a byte is
written to the pipe PID.ask, PID.answer gets what thread_waits.py finds, as JSON. PID-TIME.groups
has what rank_groups.py knows. PID.stage says what the rank does at first: "importing torch".
"""

import os
import sys

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import IO, Any

    OnImport = Callable[[ModuleType], None]
    AfterImport = Callable[[str, OnImport], None]

SIGNAL = 62  # a real-time signal that scripts and libraries do not use
HERE = os.path.dirname(os.path.abspath(__file__))
DISTRIBUTED = "torch.distributed.distributed_c10d"
SLOW = frozenset(  # modules that import torch.distributed: its thread notices when they are there
    ("accelerate", "datasets", "deepspeed", "diffusers", "fastai", "intel_extension_for_pytorch")
    + ("lightning", "peft", "pytorch_lightning", "sentence_transformers", "timm", "torch")
    + ("torch_geometric", "torchaudio", "torchvision", "transformers", "trl")
)
JOINING = "joining the process group"
STAGE_EVERY, STAGES_END = 1.0, 600.0  # seconds between looks at the stage, and until the last one
STAGE_SIZE = 80  # bytes
stage = ["", -1, 0]  # type: list[Any]  # what this process does, the file that says so, the process
watched = {}  # type: dict[str, list[OnImport]]  # by the module whose import they wait for
stacks: "list[IO[bytes]]" = []  # the open file of this process


class Finder(object):
    """Call the functions of `watched` after an import; never find a module."""

    @staticmethod
    def find_spec(
        name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name in SLOW and not is_importing():
            say_stage("importing " + name)
        calls = watched.pop(name, None)
        if not calls:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            asked = find if finder is not Finder else None
            spec = asked(name, path, target) if asked else None  # type: ModuleSpec | None
            if spec is not None:
                call_after(spec.loader, calls)
                return spec
        return None


def call_after(loader: "Any", calls: "list[OnImport]") -> None:
    """Make a loader call these functions with the module after it has run."""
    if not hasattr(loader, "exec_module"):
        return
    run = loader.exec_module

    def exec_module(module: "ModuleType") -> None:
        run(module)
        for call in calls:
            try:
                call(module)
            except Exception as e:
                sys.stderr.write("ipexctl: %s: %s\n" % (type(e).__name__, e))

    loader.exec_module = exec_module


def after_import(name: str, call: "OnImport") -> None:
    watched.setdefault(name, []).append(call)


def is_importing() -> bool:
    """Return whether the module that this process was importing is still being imported."""
    module = sys.modules.get(stage[0].partition("importing ")[2])
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def say_stage(text: str) -> None:
    """Write what this process does to PID.stage. A forked one says nothing: it is not the rank."""
    try:
        if stage[2] == 0:
            path = os.path.join(HERE, "%d.stage" % os.getpid())
            stage[1:] = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), os.getpid()]
        if stage[2] == os.getpid():
            stage[0] = text
            os.pwrite(stage[1], text.ljust(STAGE_SIZE).encode("ascii", "replace"), 0)
    except OSError:
        pass  # a full disk


def end_stage(distributed: "ModuleType") -> bool:
    """Look whether the stage is over. Return whether the rank may be in another one later."""
    try:
        has_joined = distributed.is_initialized()
    except Exception:
        has_joined = True  # an unknown torch
    is_over = has_joined if stage[0] == JOINING else not is_importing()
    if stage[0] and is_over:
        say_stage("")
    return not has_joined


def write_stacks_on_signal(forked: "FrameType | None" = None) -> None:
    """Write the stacks of all threads on SIGNAL, also in forked processes such as the workers of a
    data loader: the thread that forks is their main thread."""
    import faulthandler
    from _thread import get_ident

    path = os.path.join(HERE, "%d.stacks" % os.getpid())
    numbers = [open_to_append(path)]
    while numbers[-1] < 3:  # a process without stdin must not get this file instead
        numbers.append(open_to_append(path))
    for number in numbers[:-1]:
        os.close(number)
    file = open(numbers[-1], "wb", 0)
    file.write(("main 0x%016x\n" % get_ident()).encode("ascii"))
    if forked is not None:
        while forked.f_back is not None and ("/lib/python3" in forked.f_code.co_filename):
            forked = forked.f_back  # the line in multiprocessing, not its caller
        place = "forked %d %s\n" % (forked.f_lineno, forked.f_code.co_filename)
        file.write(place.encode("utf-8", "replace"))
    faulthandler.register(SIGNAL, file, all_threads=True)
    stacks[:] = [file]


def open_to_append(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def after_fork() -> None:
    try:
        write_stacks_on_signal(sys._getframe(1))
    except Exception:
        pass  # the folder is gone, or full: without the file, no signal is sent


def answer_questions(distributed: "ModuleType") -> None:
    """Start a thread that waits in the kernel until it is asked, or rank_groups.py has to write."""
    import select
    import threading
    import time

    groups = load_file_beside("rank_groups.py")
    record = groups["Record"](HERE, distributed)
    record.says = lambda: say_stage(JOINING)
    groups["safely"](record.watch, after_import)

    base = os.path.join(HERE, "%d." % os.getpid())
    os.mkfifo(base + "ask", 0o600)
    ask = os.open(base + "ask", os.O_RDWR)

    def answer() -> None:
        own_id = getattr(threading, "get_native_id", None)  # not in Python 3.7
        if stacks and own_id is not None:  # the signal then goes to this thread
            stacks[0].write(("asked %d\n" % own_id()).encode("ascii"))
        began = written = time.time()
        early = True
        while True:
            early = early and time.time() - began < STAGES_END and end_stage(distributed)
            if not select.select([ask], [], [], STAGE_EVERY if early else groups["EVERY"])[0]:
                if time.time() - written >= groups["EVERY"]:
                    written = time.time()
                    groups["safely"](record.write)
            elif os.read(ask, 64):
                write_whole(base, load_file_beside("thread_waits.py")["answer"](distributed))

    thread = threading.Thread(target=answer, name="ipexctl", daemon=True)
    thread.start()


def load_file_beside(name: str) -> "dict[str, Any]":
    """Run a file beside this one, and return its names."""
    path = os.path.join(HERE, name)
    names = {"__name__": name[:-3]}  # type: dict[str, Any]
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), names)
    return names


def write_whole(base: str, data: str) -> None:
    with open(os.open(base + "part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(data)
    os.rename(base + "part", base + "answer")


def begin() -> None:
    """Set up stacks on SIGNAL, and import the modules in IPEXCTL_MODULES."""
    if os.environ.get("IPEXCTL_LOOK") != "0":
        write_stacks_on_signal()
        at_fork = getattr(os, "register_at_fork", None)  # not in Python 3.6
        if at_fork is not None:
            at_fork(after_in_child=after_fork)
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")
        after_import(DISTRIBUTED, answer_questions)
    for name in os.environ.get("IPEXCTL_MODULES", "").split():
        __import__(name).begin(after_import)
    if watched:
        sys.meta_path.insert(0, Finder)


def import_the_next() -> None:
    """Import the user's sitecustomize, which this one hides."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    own_module = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as e:
        if e.name != "sitecustomize":
            raise
    finally:
        if own_module is not None:
            sys.modules.setdefault("sitecustomize", own_module)


try:
    begin()
except Exception as error:
    sys.stderr.write("ipexctl: %s: %s\n" % (type(error).__name__, error))
import_the_next()
