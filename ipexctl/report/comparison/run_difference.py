"""The differences between two runs, by the part of a step that takes longer and that they affect.

Differences that affect no part come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log, sqrt

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import format_bytes
from ipexctl.facts.package_changes import compare_packages, describe_changes
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.comparison.recorded_inputs import RunInputs, RunRecord
from ipexctl.report.comparison.step_costs import Cost, Growth, step_costs, step_growth

LEAST_CHANGE = 0.05  # of the speed: less is not a difference
FEW = 3.0  # windows: with so few, the real spread is about twice as wide


def speed_change(a: RunRecord, b: RunRecord) -> tuple[float, float] | None:
    """Return how many times as fast `a` is, and the factor of noise; None: a speed is unknown."""
    if a.speed is None or b.speed is None:
        return None
    spreads = (one.spread * (1 + FEW / one.windows) for one in (a.speed, b.speed))
    noise = max(LEAST_CHANGE, sqrt(sum(spread**2 for spread in spreads)))
    return a.speed.rate / b.speed.rate, 1 + noise


def is_noise(factor: float, noise: float) -> bool:
    return abs(log(factor)) <= log(noise)


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
    the spread of both can cause on its own. `grown`: what takes longer in the slower run; None: the
    speeds are similar, or it is unknown."""

    run: RunRecord
    other: RunRecord
    differences: tuple[Difference, ...]
    factor: float | None = None
    noise: float | None = None
    grown: Growth | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it is known for both where the time of a step went."""
        return bool(step_costs(self.run)) and bool(step_costs(self.other))

    @property
    def step(self) -> tuple[str, Cost, Cost] | None:
        """The host that the others wait for in the slower run, and the cost of a step on it in
        both; None: unknown."""
        slow, fast = (self.run, self.other) if (self.factor or 0) < 1 else (self.other, self.run)
        grown, now, was = step_growth(slow, fast), step_costs(self.run), step_costs(self.other)
        known = grown is not None and grown.host in now and grown.host in was
        return (grown.host, now[grown.host], was[grown.host]) if grown and known else None

    @property
    def speed_differs(self) -> bool:
        return self.factor is not None and not is_noise(self.factor, self.noise or 1.0)


def compare_runs(run: RunRecord, other: RunRecord) -> RunComparison:
    factor, noise = speed_change(run, other) or (None, None)
    pair = RunComparison(run, other, (), factor, noise)
    if factor is not None and pair.speed_differs:
        slow, fast = (run, other) if factor < 1 else (other, run)
        pair = replace(pair, grown=step_growth(slow, fast))
    found = [
        _with_part(pair, one) for one in (*_input_differences(pair), *_program_differences(pair))
    ]
    parts = pair.grown.parts if pair.grown else ()
    order = {part: number for number, part in enumerate(parts)}
    found = sorted(
        [*found, *_fact_differences(pair)], key=lambda one: order.get(one.part, len(order))
    )
    return replace(pair, differences=tuple(found))


def _with_part(pair: RunComparison, one: Difference) -> Difference:
    """Add the part of a step that takes longer if this difference affects it, on the same host."""
    grown = pair.grown
    if grown is None or (one.host and one.host not in grown.late):
        return one
    changes = CAN_CHANGE.get(one.slug, ())
    return replace(one, part=next((part for part in grown.parts if part in changes), ""))


# --- what was measured ----------------------------------------------------------------------------


def _program_differences(pair: RunComparison) -> Iterator[Difference]:
    for host in sorted({*pair.run.paces} & {*pair.other.paces}):
        now, was = (_other_programs_cpus(run, host) for run in (pair.run, pair.other))
        if abs(now - was) < OTHERS:
            continue
        busy = (pair.run if now > was else pair.other).paces[host].programs
        names = ", ".join(f"{name} {cpus:.1f}" for name, cpus in busy if cpus >= OTHERS)
        text = f"{host}: other programs use {now:.1f} CPUs, against {was:.1f} ({names})"
        yield Difference("other-programs", text, f"{now:.1f}", f"{was:.1f}", host)


def _other_programs_cpus(run: RunRecord, host: str) -> float:
    return sum(cpus for _, cpus in run.paces[host].programs)


# --- what the run was given -----------------------------------------------------------------------


def _input_differences(pair: RunComparison) -> Iterator[Difference]:
    a, b = pair.run.inputs, pair.other.inputs
    if a and b and a.files is not None and b.files is not None and a.tree != b.tree:
        yield _code_difference(a, b)
    yield from _argument_differences(pair)
    yield from _rank_differences(pair)
    if a is None or b is None:
        return
    changes = compare_packages(dict(b.packages), dict(a.packages))
    if changes:
        text = f"packages: {describe_changes(changes)}"
        yield Difference("packages", text, a.environment, b.environment)
    elif a.environment != b.environment:
        text = f"lock: environment {a.environment or 'none'}, against {b.environment or 'none'}"
        yield Difference("lock", text, a.environment, b.environment)
    if a.data != b.data:
        now, was = dict(a.data), dict(b.data)
        names = [name for name in sorted({*now, *was}) if now.get(name) != was.get(name)]
        yield Difference("data", f"datasets of other content: {_first_words(names)}")


def _code_difference(a: RunInputs, b: RunInputs) -> Difference:
    now, was = dict(a.files or ()), dict(b.files or ())
    names = [name for name in {**now, **was} if now.get(name) != was.get(name)]
    code = [name for name in names if name.endswith(SOURCE)]
    names = code + [name for name in names if name not in code]
    words = []
    for name in names:
        what = "changed" if name in now and name in was else "added" if name in now else "gone"
        words.append(f"{name} {what}")
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
    known = set(_group_options(others))
    mine = [one for one in _group_options(words) if one not in known]
    return [" ".join(SecretMask().document(one)) for one in mine]


def _group_options(words: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for word in words:
        takes = found and len(found[-1]) == 1 and found[-1][0].startswith("-")
        if takes and not word.startswith("-") and "=" not in found[-1][0]:
            found[-1] = (*found[-1], word)
        else:
            found.append((word,))
    return found


def _rank_differences(pair: RunComparison) -> Iterator[Difference]:
    now, was = ([h.host for h in run.plan.hosts] for run in (pair.run, pair.other))
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
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for host in sorted({*pair.run.hosts} & {*pair.other.hosts}):
        for one in _of_host(pair, host):
            found.setdefault((one.slug, one.now, one.was), []).append(_with_part(pair, one))
    for same in found.values():
        where = fold(one.host for one in same)
        best = max(same, key=lambda one: one.explains)
        yield replace(best, host=where, text=f"{where}: {best.text}")


def _of_host(pair: RunComparison, host: str) -> Iterator[Difference]:
    a, b = pair.run.hosts[host], pair.other.hosts[host]
    ours, theirs = pair.run.plan_of(host), pair.other.plan_of(host)
    rows = (
        ("threads", "threads of a rank", pair.run.threads(host), pair.other.threads(host)),
        ("cpu-set", "CPUs of the ranks", pair.run.cpus(host), pair.other.cpus(host)),
        (
            "cpu-quota",
            "CPUs that the control group allows",
            _quota_text(a.quota),
            _quota_text(b.quota),
        ),
        ("cpu", "CPU", a.cpu, b.cpu),
        ("governor", "CPU governor", ", ".join(a.governors), ", ".join(b.governors)),
        ("frequency", "highest CPU frequency", _ghz_text(a.max_khz), _ghz_text(b.max_khz)),
        ("turbo", "turbo", _on_or_off(a.turbo), _on_or_off(b.turbo)),
        ("huge-pages", "transparent huge pages", a.thp, b.thp),
        ("kernel", "kernel", a.kernel, b.kernel),
        ("memory", "memory", format_bytes(a.memory or 0), format_bytes(b.memory or 0)),
        ("network", "interface of the ranks", ours and ours.nic, theirs and theirs.nic),
        ("link-speed", "Mbit/s of its link", a.speed, b.speed),
    )
    for slug, what, *values in rows:
        now, was = (str(value or "unknown") for value in values)
        if now != was:
            yield Difference(slug, f"{what} {now}, against {was}", now, was, host)
    yield from _variable_differences(pair, host)


def _variable_differences(pair: RunComparison, host: str) -> Iterator[Difference]:
    now, was = (dict(run.hosts[host].variables) for run in (pair.run, pair.other))
    told = {"OMP_NUM_THREADS"} | ({"GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "CCL_KVS_IFACE"})
    names = [n for n in sorted({*now, *was}) if now.get(n) != was.get(n) and n not in told]
    if not names:
        return
    words = [f"{n}={now.get(n, 'unset')}, against {was.get(n, 'unset')}" for n in names]
    ours, theirs = (str([known.get(name) for name in names]) for known in (now, was))
    yield Difference("variables", _first_words(words), ours, theirs, host)


def _first_words(words: Sequence[str]) -> str:
    more = [f"{len(words) - SOME} more"] if len(words) > SOME else []
    return ", ".join([*words[:SOME], *more])


def _quota_text(quota: float | None) -> str:
    return f"{quota:g}" if quota else "no limit"


def _ghz_text(khz: int | None) -> str:
    return f"{khz / 1e6:.2f} GHz" if khz else ""


def _on_or_off(value: bool | None) -> str:  # noqa: FBT001
    return {True: "on", False: "off"}.get(value, "") if value is not None else ""
