"""The differences between two runs, by the part of a step that takes longer and that they affect.

Differences that affect no part come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log, sqrt

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import format_bytes
from ipexctl.common.run_inputs import RunInputs
from ipexctl.facts.package_changes import compare_packages, describe_changes
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.comparison.recorded_inputs import RunRecord
from ipexctl.report.comparison.step_costs import Cost, Growth, step_costs, step_growth

LEAST_CHANGE = 0.05  # of the speed: less is not a difference
FEW = 3.0  # windows: with so few, the real spread is about twice as wide


def speed_change(run: RunRecord, other: RunRecord) -> tuple[float, float] | None:
    """Return how many times as fast `run` is, and the factor of noise; None: a speed is unknown, or
    without a spread, or one is of steps and the other of epochs."""
    now, was = run.speed, other.speed
    if now is None or was is None or not (now.is_comparable and was.is_comparable):
        return None
    if now.unit != was.unit:
        return None
    spreads = [speed.spread * (1 + FEW / speed.windows) for speed in (now, was)]
    noise = sqrt(sum(part**2 for part in (*spreads, now.error, was.error)))
    return now.rate / was.rate, 1 + max(LEAST_CHANGE, noise)


OTHERS = 0.1  # CPUs of other programs
SOURCE = (".py", ".pyi", ".pyx", ".sh", ".c", ".cc", ".cpp", ".h", ".hpp")
SOME = 5  # files, options or variables that are listed by name
CAN_CHANGE = {  # parts of a step, as of Cost; differences that are not listed here affect none
    **dict.fromkeys(("code", "files", "arguments", "packages", "data"), ("computing", "idle")),
    **dict.fromkeys(("cpu", "governor", "frequency", "turbo"), ("computing",)),
    **dict.fromkeys(("huge-pages", "kernel"), ("computing",)),
    "variables": ("computing", "idle"),
    "ranks": ("computing", "sending"),
    "hosts": ("computing", "waited", "sending"),
    "threads": ("computing", "waited"),
    "cpu-set": ("computing", "waited"),
    "cpu-quota": ("waited", "idle"),
    "other-programs": ("waited",),
    **dict.fromkeys(("network", "link-speed"), ("sending",)),
}


@dataclass(frozen=True)
class Difference:
    """`now`, `was`: in the run and in the one it is compared with. `part`: the part of a step that
    takes longer and that this affects; "" for none. `host`: where; "" for the run."""

    slug: str
    text: str
    now: str = ""
    was: str = ""
    host: str = ""
    part: str = ""

    @property
    def explains(self) -> bool:
        return bool(self.part)


@dataclass(frozen=True)
class RunComparison:
    """`factor`: how many times as fast `run` is; None: one speed is unknown. `noise`: a factor that
    the spread of both can cause on its own. `growth`: what takes longer in the slower run; None: it
    is not known for both where the time of a step went."""

    run: RunRecord
    other: RunRecord
    differences: tuple[Difference, ...]
    factor: float | None = None
    noise: float | None = None
    growth: Growth | None = None

    @property
    def grown(self) -> Growth | None:
        """What takes longer; None, too, if the speeds are similar."""
        return self.growth if self.speed_differs else None

    @property
    def step(self) -> tuple[str, Cost, Cost] | None:
        """The host that the others wait for in the slower run, and the cost of a step on it in
        both; None: unknown."""
        host = self.growth.host if self.growth else ""
        now, was = step_costs(self.run).get(host), step_costs(self.other).get(host)
        return (host, now, was) if now and was else None

    @property
    def speed_differs(self) -> bool:
        return self.factor is not None and abs(log(self.factor)) > log(self.noise or 1.0)


def compare_runs(run: RunRecord, other: RunRecord) -> RunComparison:
    """Compare two runs: speed, parts of a step, and recorded inputs."""
    factor, noise = speed_change(run, other) or (None, None)
    slower, faster = (run, other) if factor is not None and factor < 1 else (other, run)
    pair = RunComparison(run, other, (), factor, noise, step_growth(slower, faster))
    differences = [
        _with_part(pair, item) for item in (*_input_differences(pair), *_program_differences(pair))
    ]
    parts = pair.grown.parts if pair.grown else ()
    order = {part: number for number, part in enumerate(parts)}
    differences = sorted(
        [*differences, *_fact_differences(pair)], key=lambda item: order.get(item.part, len(order))
    )
    return replace(pair, differences=tuple(differences))


def _with_part(pair: RunComparison, difference: Difference) -> Difference:
    """Add the part of a step that takes longer if this difference affects it, on the same host."""
    grown = pair.grown
    if grown is None or (difference.host and difference.host not in grown.late):
        return difference
    changes = CAN_CHANGE.get(difference.slug, ())
    return replace(difference, part=next((part for part in grown.parts if part in changes), ""))


# --- what was measured ----------------------------------------------------------------------------


def _program_differences(pair: RunComparison) -> Iterator[Difference]:
    for host in sorted({*pair.run.paces} & {*pair.other.paces}):
        programs = [run.paces[host].programs for run in (pair.run, pair.other)]
        now, was = (sum(cpus for _, cpus in row) for row in programs)
        if abs(now - was) < OTHERS:
            continue
        busy = programs[0] if now > was else programs[1]
        names = ", ".join(f"{name} {cpus:.1f}" for name, cpus in busy if cpus >= OTHERS)
        text = f"{host}: other programs use {now:.1f} CPUs, against {was:.1f} ({names})"
        yield Difference("other-programs", text, f"{now:.1f}", f"{was:.1f}", host)


# --- what the run was given -----------------------------------------------------------------------


def _input_differences(pair: RunComparison) -> Iterator[Difference]:
    a, b = pair.run.inputs, pair.other.inputs
    if a and b and a.files is not None and b.files is not None and a.tree != b.tree:
        yield _code_difference(a, b)
    yield from _argument_differences(pair)
    yield from _rank_differences(pair)
    if a is None or b is None:
        return
    changes = compare_packages(b.packages, a.packages)
    if changes:
        text = f"packages: {describe_changes(changes)}"
        yield Difference("packages", text, a.environment, b.environment)
    elif a.environment != b.environment:
        text = f"lock: environment {a.environment or 'none'}, against {b.environment or 'none'}"
        yield Difference("lock", text, a.environment, b.environment)
    if a.data != b.data:
        now, was = a.data, b.data
        names = [name for name in sorted({*now, *was}) if now.get(name) != was.get(name)]
        yield Difference("data", f"datasets of other content: {_first_words(names)}")


def _code_difference(ours: RunInputs, theirs: RunInputs) -> Difference:
    """Name the files that were changed, added or removed, code first."""
    now, was = ours.files or {}, theirs.files or {}
    names = [name for name in {**now, **was} if now.get(name) != was.get(name)]
    code = [name for name in names if name.endswith(SOURCE)]
    names = code + [name for name in names if name not in code]
    words = []
    for name in names:
        state = "changed" if name in now and name in was else "added" if name in now else "gone"
        words.append(f"{name} {state}")
    if not names:  # there are more than were recorded
        return Difference("files", "other files of the project differ, not code")
    slug = "code" if code else "files"
    if all(name.endswith(("ipexctl.toml", "ipexctl.lock")) for name in names):  # reported elsewhere
        slug = "settings"
    return Difference(slug, f"code: {_first_words(words)}" if code else _first_words(words))


def _argument_differences(pair: RunComparison) -> Iterator[Difference]:
    now, was = pair.run.plan.argv, pair.other.plan.argv
    if now == was:
        return
    ours, theirs = (" ".join(_words_not_in(x, y)) or "nothing" for x, y in ((now, was), (was, now)))
    yield Difference("arguments", f"arguments: {ours}, against {theirs}", ours, theirs)


def _words_not_in(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return options, with their values, that the others do not have."""
    other_options = set(_group_options(others))
    extra = [option for option in _group_options(words) if option not in other_options]
    return [" ".join(SecretMask().mask_document(option)) for option in extra]


def _group_options(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Group each option with its value."""
    groups: list[tuple[str, ...]] = []
    for word in words:
        takes = groups and len(groups[-1]) == 1 and groups[-1][0].startswith("-")
        if takes and not word.startswith("-") and "=" not in groups[-1][0]:
            groups[-1] = (*groups[-1], word)
        else:
            groups.append((word,))
    return groups


def _rank_differences(pair: RunComparison) -> Iterator[Difference]:
    now, was = ([host.host for host in run.plan.hosts] for run in (pair.run, pair.other))
    counts = [run.plan.world_size for run in (pair.run, pair.other)]
    if counts[0] != counts[1]:
        text = f"{counts[0]} ranks, against {counts[1]}"
        yield Difference("ranks", text, str(counts[0]), str(counts[1]))
    if sorted(now) != sorted(was):
        text = f"hosts: {fold(now)}, against {fold(was)}"
        yield Difference("hosts", text, fold(now), fold(was))


# --- what the hosts were --------------------------------------------------------------------------


def _fact_differences(pair: RunComparison) -> Iterator[Difference]:
    """Yield facts that differ; the same difference on several hosts is reported once."""
    groups: dict[tuple[str, str, str], list[Difference]] = {}
    for host in sorted({*pair.run.hosts} & {*pair.other.hosts}):
        for item in _of_host(pair, host):
            groups.setdefault((item.slug, item.now, item.was), []).append(_with_part(pair, item))
    for group in groups.values():
        where = fold(item.host for item in group)
        best = max(group, key=lambda item: item.explains)
        yield replace(best, host=where, text=f"{where}: {best.text}")


def _of_host(pair: RunComparison, host: str) -> Iterator[Difference]:
    """Yield facts, placement and variables of a host that differ between the runs."""
    rows = (_fact_rows(run, host) for run in (pair.run, pair.other))
    for (slug, title, ours), (_, _, theirs) in zip(*rows, strict=True):
        now, was = (str(value or "unknown") for value in (ours, theirs))
        if now != was:
            yield Difference(slug, f"{title} {now}, against {was}", now, was, host)
    yield from _variable_differences(pair, host)


def _fact_rows(run: RunRecord, host: str) -> list[tuple[str, str, str | int | None]]:
    """Return the slug, the title and the value of each fact of a host, and of its ranks there."""
    facts, plan = run.hosts[host], run.plan_of(host)
    cpus = {cpu for place in plan.ranks for cpu in place.cpus} if plan else ()
    return [
        ("threads", "threads of a rank", run.threads(host)),
        ("cpu-set", "CPUs of the ranks", len(cpus)),
        (
            "cpu-quota",
            "CPUs that the control group allows",
            f"{facts.quota:g}" if facts.quota else "no limit",
        ),
        ("cpu", "CPU", facts.cpu),
        ("governor", "CPU governor", ", ".join(facts.governors)),
        (
            "frequency",
            "highest CPU frequency",
            f"{facts.max_khz / 1e6:.2f} GHz" if facts.max_khz else None,
        ),
        ("turbo", "turbo", {True: "on", False: "off", None: ""}[facts.turbo]),
        ("huge-pages", "transparent huge pages", facts.thp),
        ("kernel", "kernel", facts.kernel),
        ("memory", "memory", format_bytes(facts.memory or 0)),
        ("network", "interface of the ranks", plan.nic if plan else ""),
        ("link-speed", "Mbit/s of its link", facts.speed),
    ]


def _variable_differences(pair: RunComparison, host: str) -> Iterator[Difference]:
    now, was = (run.hosts[host].variables for run in (pair.run, pair.other))
    reported = {"OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "CCL_KVS_IFACE"}
    names = [n for n in sorted({*now, *was}) if now.get(n) != was.get(n) and n not in reported]
    if not names:
        return
    words = [f"{n}={now.get(n, 'unset')}, against {was.get(n, 'unset')}" for n in names]
    ours, theirs = (str([variables.get(name) for name in names]) for variables in (now, was))
    yield Difference("variables", _first_words(words), ours, theirs, host)


def _first_words(words: Sequence[str]) -> str:
    rest = [f"{len(words) - SOME} more"] if len(words) > SOME else []
    return ", ".join([*words[:SOME], *rest])
