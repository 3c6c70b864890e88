"""What others write, under a coverage-guided fuzzer, by hand: it is no part of `make test`.

    pip install atheris pyyaml packaging        # into an environment of its own
    python tests/fuzz/atheris_targets.py TARGET -max_total_time=90 [-OPTION=VALUE ...] [FOLDER ...]

Each target gives a value or the error that its text may end in. Everything else, and 5 s for one
input, is a bug. Without a FOLDER it starts from the seeds below; -help=1 lists the options.
"""

from __future__ import annotations

import copy
import json
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["ipexctl"]):
    from ipexctl.common import run_events
    from ipexctl.common.exchange_report import ExchangeReport
    from ipexctl.common.frames import encode_frame
    from ipexctl.common.supervisor_messages import PartReport
    from ipexctl.doctor.checks import run_all
    from ipexctl.doctor.report.cluster import CheckedHosts
    from ipexctl.doctor.report.recommendations import recommend_settings
    from ipexctl.errors import HostFailed, IpexctlError
    from ipexctl.explain.causes import causes
    from ipexctl.facts import core_pinning, host_facts, usable_cores
    from ipexctl.machines.wire.frames import BadFrame, Decoder
    from ipexctl.project.files import project_files
    from ipexctl.run.outcome import event_reader
    from ipexctl.run.output import rank_lines
    from ipexctl.run.plan import launch, launch_plan
    from ipexctl.stack import lock_file
    from ipexctl.stack.version_table import parse_table
    from ipexctl.user_code import source_reader

from tests.fuzz.answer import ANSWER, ODD  # noqa: E402  (the path is set above)
from tests.made import event_document, host, prepared  # noqa: E402
from tests.made import facts as made_facts  # noqa: E402
from tests.plan.asked import read_launch  # noqa: E402

OPTIONS = ("-timeout=5", "-max_len=600")
ROWS = parse_table((ROOT / "ipexctl/stack/stacks.toml").read_text("utf-8"))
KNOWN_CAUSES = causes.parse_causes((ROOT / "ipexctl/explain/causes/causes.toml").read_text("utf-8"))
PLAN = launch_plan.make_launch_plan(
    [
        launch.PlannedHost(
            host(f"node0{i}"), made_facts(f"node0{i}", address=f"10.0.0.{i}"), prepared()
        )
        for i in (1, 2)
    ],
    launch.RunRequest(("train.py",), 4, 2),
    "r1",
)


@dataclass(frozen=True)
class Target:
    """`one` takes an input; `refusals` are the only errors that may leave it."""

    one: Callable[[bytes], None]
    seeds: tuple[str, ...]
    refusals: tuple[type[Exception], ...] = (IpexctlError,)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# --- what another person's project has ---------------------------------------------------------


def lock_(data: bytes) -> None:
    found = lock_file.parse_lock(_text(data), "ipexctl.lock")
    assert (
        lock_file.parse_lock(lock_file.render_lock(found), "again") == found
        and len(found.key) == 16
    )


# --- what a host says ----------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """In pieces as at once; a frame that is whole is an event or a HostFailed.

    From 128 on the first byte says: the rest is a header, and its length is right.
    """
    step, stream = (data[0] % 16 + 1 if data else 1), data[1:]
    if data[:1] >= b"\x80":
        stream = struct.pack(">II", len(stream), 0) + stream
    whole = Decoder(1 << 16).feed(stream)
    decoder = Decoder(1 << 16)
    pieces = [f for i in range(0, len(stream), step) for f in decoder.feed(stream[i : i + step])]
    assert repr(pieces) == repr(whole)
    for frame in whole:
        _event(frame.header, frame.body)


def _event(header: Any, body: bytes) -> None:
    try:
        found = event_reader.read_host_event("node01", header, body, {0, 1})
    except HostFailed:
        return
    if isinstance(found, event_reader.RankEnded):
        assert str(found.end) and isinstance(found.end.exit_code, int)


def sh_text(data: bytes) -> None:
    _use(host_facts.from_sh("node01", _text(data)))


def probe(data: bytes) -> None:
    """A JSON document as it is; any other bytes say what to put where in a good answer."""
    if data[:1] in (b"{", b"[", b'"'):
        try:
            raw = json.loads(data)
        except (ValueError, RecursionError):
            return
    else:
        raw = _changed(atheris.FuzzedDataProvider(data), ANSWER, PATHS)
    _use(host_facts.from_json("node01", raw))


def _use(found: host_facts.Facts) -> None:
    """Everything that is decided from what a host says."""
    (
        host_facts.peer_address(found),
        host_facts.count_usable_cores(found),
        host_facts.usable_cpus(found),
    )
    run_all(CheckedHosts((found,), rows=ROWS))
    two = CheckedHosts((found, made_facts("node02")), rows=ROWS)
    run_all(two), recommend_settings(two)
    usable_cores.numa_nodes(found.cpu)
    for ranks in (1, 3):
        core_pinning.place_ranks(found, ranks), core_pinning.place_ranks(found, ranks, 1)


def _changed(fdp: atheris.FuzzedDataProvider, good: Any, paths: list[tuple[Any, ...]]) -> Any:
    raw = copy.deepcopy(good)
    while fdp.remaining_bytes():
        *way, last = paths[fdp.ConsumeIntInRange(0, len(paths) - 1)]
        part: Any = raw
        for step in way:
            part = part[step] if _holds(part, step) else None
        if _holds(part, last):
            part[last] = _value(fdp, 3)
    return raw


def _holds(part: Any, step: Any) -> bool:
    if isinstance(part, dict):
        return step in part
    return isinstance(part, list) and isinstance(step, int) and step < len(part)


def _value(fdp: atheris.FuzzedDataProvider, depth: int) -> Any:
    kind = fdp.ConsumeIntInRange(0, 9 if depth else 6)
    if kind < 3:
        return fdp.ConsumeUnicode(fdp.ConsumeIntInRange(0, 40))
    if kind == 3:
        return ODD[fdp.ConsumeIntInRange(0, len(ODD) - 1)]
    if kind < 6:
        return fdp.ConsumeIntInRange(-2, 300) if kind == 4 else fdp.ConsumeInt(9)
    if kind == 6:
        return fdp.ConsumeRegularFloat()
    if kind == 9:
        return {fdp.ConsumeUnicode(5): _value(fdp, depth - 1)}
    return [_value(fdp, depth - 1) for _ in range(fdp.ConsumeIntInRange(0, 4))]


# --- what a rank prints, what mpirun asks for ----------------------------------------------------


def runlog_(data: bytes) -> None:
    step, stream = (data[0] + 1 if data else 1), data[1:]
    at_once, in_pieces = rank_lines.Lines(), rank_lines.Lines()
    lines = at_once.feed(stream) + at_once.end()
    found = [s for i in range(0, len(stream), step) for s in in_pieces.feed(stream[i : i + step])]
    assert found + in_pieces.end() == lines
    for line in lines:
        assert rank_lines.strip_control_codes(line) == line
        bare = rank_lines._COLOUR.sub("", line)
        assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in bare)


def causes_(data: bytes) -> None:
    lines = _text(data).split("\n")
    found = causes.find_likeliest_cause(lines, KNOWN_CAUSES)
    every = causes.find_causes(lines, KNOWN_CAUSES)
    assert found is None or found.cause in [m.cause for m in every]
    for one in every:
        assert one.line == lines[one.number - 1][: causes.MAX_LINE]


def launch_(data: bytes) -> None:
    """An argv of mpirun's; a JSON object is an event; from 128 on: what to change in all events."""
    if data[:1] >= b"\x80":
        found = _changed(atheris.FuzzedDataProvider(data[1:]), _EVENTS, EVENT_PATHS)
        for event in found:
            if isinstance(event, dict):
                _event(event, b"text")
        return
    if data[:1] != b"{":
        host, _ = read_launch(PLAN, tuple(_text(data).split("\n")))
        assert host in ("node01", "node02")
        return
    try:
        header = json.loads(data)
    except (ValueError, RecursionError):
        return
    _event(header, data)


# --- where they start ----------------------------------------------------------------------------


def project_(data: bytes) -> None:
    """Of a folder: a Python file, an ignore file and a path."""
    text = _text(data)
    source_reader.read_source("train.py", text, main=True)
    path, _, rules = text.partition("\n")
    ignore = project_files.Ignore().with_folder("", rules, rules)
    ignore(path.strip("/") or "x")


def _paths(part: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = part.items() if isinstance(part, dict) else enumerate(part)
    found = [(*way, key) for key, _ in items]
    deeper = part.items() if isinstance(part, dict) else enumerate(part)
    inner = ((key, value) for key, value in deeper if isinstance(value, dict | list))
    return found + [p for key, value in inner for p in _paths(value, (*way, key))]


PATHS = _paths(ANSWER)
_SHA = "a" * 64
_WHEEL = f'version = "1"\nfile = "a-1-py3-none-any.whl"\nsha256 = "{_SHA}"\nsize = 1\n'


def _stream(*headers: dict[str, Any]) -> str:
    return "\x03" + b"".join(encode_frame({"id": 1, **h}, b"text") for h in headers).decode()


_EVENTS: list[dict[str, Any]] = [
    *(
        json.loads(json.dumps(event_document(event)))
        for event in (
            run_events.RankExited(0, run_events.Exit(1, hints=("oom",))),
            run_events.LogPart(1, end=True), run_events.Exited("daemon1", 0),
            run_events.Abandoned("x"), run_events.Swept(1),
            run_events.Launch(1, ["-q", "-x", "node02", "/p/bin//hydra_pmi_proxy"]),
            run_events.Exchanged(ExchangeReport(moved=((0, "a", "b", 1, 2),))),
        )
    ),
    {"done": PartReport(0, "/l").document()}, {"error": {"what": "no disk", "why": ""}},
]  # fmt: skip
EVENT_PATHS = _paths(_EVENTS)

TARGETS = {
    "frames": Target(
        frames,
        (
            _stream(*_EVENTS),
            *map(_stream, _EVENTS),
            *(chr(0xDC85) + json.dumps({"id": 1, **h}) for h in _EVENTS),
        ),
        (BadFrame, IpexctlError),
    ),
    "sh_text": Target(
        sh_text,
        (
            ":kernel\nLinux 6.1\n:uid\n1000\n:home\n/h\n:ssh\n10.0.0.9 5 10.0.0.1 22\n"
            ":os\nID=debian\n"
            ":cpu\nprocessor : 0\nphysical id : 0\ncore id : 1\nflags : avx2 fma\n\nprocessor : 1\n"
            ":mem\nMemTotal: 100 kB\n:df\n/dev/sda 100 5 95 5% /\nshm 9 1 8 1% /dev/shm\n",
        ),
    ),
    "probe": Target(probe, (json.dumps(ANSWER), "\0", "a" * 100)),
    "runlog": Target(
        runlog_, ("\4\x1b[31mred\x1b[0m\r\n 10%\r 20%\x1b]0;t\x07\n\u202e\t\x9b2J\n",)
    ),
    "causes": Target(causes_, tuple("x\n" + c.example for c in KNOWN_CAUSES)),
    "lock": Target(
        lock_,
        (
            'schema = 1\n[stack]\nrow = "r"\ntorch = "2"\nmpi = "m"\npython = "3.11"\n'
            f'platform = "p"\n[uv]\nname = "uv"\n{_WHEEL}[[package]]\nname = "a"\n{_WHEEL}',
            "a = " + "[" * 500,
        ),
    ),
    "project": Target(
        project_,
        (
            "import torch\nfrom accelerate import Accelerator as A\nA(cpu=True)\n",
            "a/b/c.py\n**/b/**\n!*.py\n/a[!b-d]?/\\# x\n*a*a*a*a*a*a*a*b\n",
            "--index-url https://u:p@x/simple\na==1\n    # from https://x/simple\n",
        ),
    ),
    "launch": Target(
        launch_,
        (
            "\n".join(("-q", "-x", "node02", f"{PLAN.hosts[0].prefix}/bin//hydra_pmi_proxy", "-x")),
            *map(json.dumps, _EVENTS),
            chr(0xDC80) + "a" * 60,
        ),
    ),
}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"{__doc__}\ntargets: {', '.join(TARGETS)}")
    target = TARGETS[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        try:
            target.one(data)
        except target.refusals as e:
            str(e)

    given = sys.argv[1:]
    if all(word.startswith("-") for word in given):
        given.append(tempfile.mkdtemp(prefix="ipexctl-fuzz-"))
    corpus = next(Path(word) for word in given if not word.startswith("-"))
    for number, seed in enumerate(target.seeds if corpus.is_dir() else ()):
        (corpus / f"seed{number}").write_bytes(seed.encode("utf-8", "surrogateescape"))
    longest = max(len(seed) for seed in target.seeds)
    atheris.Setup([sys.argv[0], *OPTIONS, f"-max_len={max(600, 2 * longest)}", *given], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
