"""What differs between two runs, and which of it explains that one is slower.

A difference counts by evidence: by how much longer the part of a step is that it can change
(step_costs.py). What cannot have made the longer part longer comes last, as not explaining.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import human
from ipexctl.env.choice.package_changes import between, describe_changes
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.recorded_inputs import HostInputs, RunInputs, RunRecord, line_keys
from ipexctl.report.step_costs import GREW, Cost, Growth, change, costs, growth, is_noise

# of a run that was too short, or whose hosts do not say it: as most differences are
UNMEASURED = Growth("", computing=0.4, waited=0.0, sending=0.0, idle=0.2)
EXPLAINS = 0.2  # of the longer part of a step: what weighs less explains nothing
OTHERS = 0.1  # CPUs of other programs
BINDS = 0.7  # of a quota or of the threads: a rank that uses so much wants more
SOURCE = (".py", ".pyi", ".pyx", ".sh", ".c", ".cc", ".cpp", ".h", ".hpp")
SOME = 5  # files, options or variables that are named
_SIZES = re.compile(r"batch|\bbs\b|seq|len|hidden|layer|dim|size|width|depth|dtype|prec|bf16|accum")
_LIBRARIES = re.compile(r"torch|intel|mkl|onednn|openmp|numpy|mpi|ccl|deepspeed|accelerate")
_TUNING = re.compile(
    r"(OMP|KMP|GOMP|MKL|LD_PRELOAD|MALLOC|TCMALLOC|ONEDNN|DNNL|TORCH|CCL|I_MPI|FI|GLOO|IPEX|ATEN)"
)


@dataclass(frozen=True)
class Difference:
    """`now`, `was`: in the run and in the one that it is compared with. `weight`: the share of the
    longer time of a step that it may explain, from 0 to 1. `host`: where; "" for the run."""

    slug: str
    text: str
    now: str = ""
    was: str = ""
    host: str = ""
    weight: float = 0.0

    @property
    def explains(self) -> bool:
        return self.weight >= EXPLAINS


@dataclass(frozen=True)
class Comparison:
    """`factor`: how many times as fast `run` is; None: the speed of one is not known. `noise`: a
    factor that the spread of both makes likely without a reason."""

    run: RunRecord
    other: RunRecord
    differences: tuple[Difference, ...]
    factor: float | None = None
    noise: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it is known where the time of a step went in both."""
        return bool(costs(self.run)) and bool(costs(self.other))

    @property
    def step(self) -> tuple[str, Cost, Cost] | None:
        """The host that the others wait for in the slower run, and a step there in both; None: not
        known."""
        slow, fast = (self.run, self.other) if (self.factor or 0) < 1 else (self.other, self.run)
        grown, now, was = growth(slow, fast), costs(self.run), costs(self.other)
        known = grown is not None and grown.host in now and grown.host in was
        return (grown.host, now[grown.host], was[grown.host]) if grown and known else None

    @property
    def speed_differs(self) -> bool:
        return self.factor is not None and not is_noise(self.factor, self.noise or 1.0)


def compare(run: RunRecord, other: RunRecord) -> Comparison:
    found = change(run, other)
    return Comparison(run, other, tuple(differences(run, other)), *(found or (None, None)))


def differences(a: RunRecord, b: RunRecord) -> list[Difference]:
    """What explains the difference of speed first."""
    found = change(a, b)
    if found is None or is_noise(*found):
        judge = _Judge(a, b, None)
        return [*_inputs(judge), *_facts(judge), *_programs(judge)]
    slow, fast = (a, b) if found[0] < 1 else (b, a)
    judge = _Judge(a, b, growth(slow, fast) or UNMEASURED, slower=found[0] < 1)
    made = [*_inputs(judge), *_measured(judge), *_facts(judge)]
    why = {one.host for one in made if one.slug in ("cpu-quota", "cpu-set") and one.explains}
    made = [one for one in made if one.slug != "cpu-wait" or one.host not in why]
    return sorted(made, key=lambda one: -one.weight)


@dataclass(frozen=True)
class _Judge:
    a: RunRecord
    b: RunRecord
    grown: Growth | None  # None: the speeds are alike
    slower: bool = True  # a is

    @property
    def slow(self) -> RunRecord:
        return self.a if self.slower else self.b

    @property
    def fast(self) -> RunRecord:
        return self.b if self.slower else self.a

    @property
    def threads_fell(self) -> bool:
        """Ranks compute with fewer threads, use these, and do not compute more for a step."""
        grown = self.grown
        if grown is None:
            return False
        now, before = self.slow.threads(grown.host), self.fast.threads(grown.host)
        pace = self.slow.paces.get(grown.host)
        ranks = pace.ranks if pace else ()
        used = max((rank.cpus for rank in ranks), default=0.0)
        fell = bool(now and before and now < before) and used >= BINDS * (now or 1)
        return fell and grown.cpu <= (before or 1) / (now or 1)

    def work(self, share: float) -> float:
        """The weight of what makes ranks compute more, or wait for something of their own."""
        if self.grown is None or self.threads_fell:
            return 0.0
        alone = 0.6 if self.grown.alone else 1.0
        return share * alone * (self.grown.computing + self.grown.idle)

    def pair(self, name: str) -> tuple[HostInputs, HostInputs] | None:
        if name in self.a.hosts and name in self.b.hosts:
            return self.a.hosts[name], self.b.hosts[name]
        return None


# --- what was measured ----------------------------------------------------------------------------


def _measured(judge: _Judge) -> Iterator[Difference]:
    """Of the host that the others wait for in the slow run."""
    grown = judge.grown
    programs = list(_programs(judge))
    yield from programs
    if grown is None:
        return
    host, both = grown.host, (judge.a, judge.b)
    if grown.waited >= EXPLAINS:
        yield from _waited(judge, grown, programs)
    if grown.alone and grown.computing >= EXPLAINS:
        text = f"{host}: a step takes {grown.cpu:.1f} times the CPU time there, and not elsewhere"
        yield Difference("host-slower", text, host=host, weight=0.7 * grown.computing)
    if grown.sending >= EXPLAINS:
        now, was = (_seconds(costs(run), host, "sending") for run in both)
        text = f"{host}: the exchange of a step takes {now}, against {was}"
        more = grown.bytes >= 1.2 or grown.bytes <= 1 / 1.2
        sizes = [human(int(c.bytes)) for run in both if (c := costs(run).get(host))]
        text += f"; a rank sends {sizes[0]} in it, against {sizes[1]}" if more and sizes[1:] else ""
        weight = grown.sending * (0.6 if more else 0.9)
        yield Difference("exchange", text, now, was, host, weight)


def _programs(judge: _Judge) -> Iterator[Difference]:
    """Other programs explain how long ranks of their host wait for a CPU."""
    for host in sorted({*judge.a.paces} & {*judge.b.paces}):
        now, was = (_others(run, host) for run in (judge.a, judge.b))
        if abs(now - was) < OTHERS:
            continue
        busy = (judge.a if now > was else judge.b).paces[host].programs
        names = ", ".join(f"{name} {cpus:.1f}" for name, cpus in busy if cpus >= OTHERS)
        text = f"{host}: other programs use {now:.1f} CPUs, against {was:.1f} ({names})"
        weight = judge.grown.waits.get(host, 0.0) if judge.grown else 0.0
        weight *= (now > was) == judge.slower
        text += f"; {_waits(judge, host)}" if weight >= EXPLAINS else ""
        yield Difference("other-programs", text, f"{now:.1f}", f"{was:.1f}", host, weight)


def _others(run: RunRecord, host: str) -> float:
    return sum(cpus for _, cpus in run.paces[host].programs)


def _waited(judge: _Judge, grown: Growth, programs: Sequence[Difference]) -> Iterator[Difference]:
    """What no program on the host explains."""
    host, busy = grown.host, judge.slow.paces[grown.host]
    reasons = [one.host for one in programs if one.explains]
    if host in reasons:
        return
    text = f"{host}: {_waits(judge, host)}"
    if busy.cpu is not None:
        text += f"; the CPUs of the machine are {busy.cpu:.0%} busy"
    weight = (0.6 if reasons else 0.9) * grown.waited
    yield Difference("cpu-wait", text, host=host, weight=weight)


def _waits(judge: _Judge, host: str) -> str:
    shares = []
    for run in (judge.a, judge.b):
        ranks = run.paces[host].ranks if host in run.paces else ()
        shares.append(max((rank.waited or 0.0 for rank in ranks), default=0.0))
    return f"its ranks wait for a CPU {shares[0]:.0%} of the time, against {shares[1]:.0%}"


def _seconds(found: Mapping[str, object], host: str, part: str) -> str:
    value = getattr(found.get(host), part, None)
    return "unknown" if value is None else f"{1000 * value:.0f} ms"


# --- what the run was given -----------------------------------------------------------------------


def _inputs(judge: _Judge) -> Iterator[Difference]:
    yield from _arguments(judge)
    yield from _ranks(judge)
    a, b = judge.a.inputs, judge.b.inputs
    if a is None or b is None:
        return
    if a.files is not None and b.files is not None and a.tree != b.tree:
        yield _code(judge, a, b)
    changes = between(dict(b.packages), dict(a.packages))
    if changes:
        large = any(_LIBRARIES.search(one.package) for one in changes)
        text = f"packages: {describe_changes(changes)}"
        weight = judge.work(0.7 if large else 0.1)
        yield Difference("packages", text, a.environment, b.environment, weight=weight)
    elif a.environment != b.environment:
        text = f"lock: environment {a.environment or 'none'}, against {b.environment or 'none'}"
        yield Difference("lock", text, a.environment, b.environment)
    if a.data != b.data:
        now, was = dict(a.data), dict(b.data)
        names = [name for name in sorted({*now, *was}) if now.get(name) != was.get(name)]
        text = f"datasets of other content: {_some(names)}"
        yield Difference("data", text, weight=judge.work(0.5))


def _code(judge: _Judge, a: RunInputs, b: RunInputs) -> Difference:
    now, was = dict(a.files or ()), dict(b.files or ())
    names = [name for name in {**now, **was} if now.get(name) != was.get(name)]
    code = [name for name in names if name.endswith(SOURCE)]
    names = code + [name for name in names if name not in code]
    words = []
    for name in names:
        what = "changed" if name in now and name in was else "added" if name in now else "gone"
        words.append(f"{name} {what}{_changed_lines(a, b, name)}")
    if not names:  # of more than were kept
        return Difference("files", "other files of the project differ, not code")
    slug = "code" if code else "files"
    same = not any(name in now and name in was for name in code or names)
    weight = 0.0 if same else judge.work(0.9 if code else 0.4)  # 0: what ranks read is the same
    grown, ran = judge.grown, {name for name, _ in (*a.lines, *b.lines)}
    if grown and ran.intersection(code):  # ranks run it; who computes more also waits more
        more = weight >= EXPLAINS or (weight and grown.cpu >= GREW and not grown.alone)
        weight = max(weight, grown.waited, *grown.waits.values()) if more else weight
    if all(name.endswith(("ipexctl.toml", "ipexctl.lock")) for name in names):  # told elsewhere
        slug, weight = "settings", 0.0
    return Difference(slug, f"code: {_some(words)}" if code else _some(words), weight=weight)


def _changed_lines(a: RunInputs, b: RunInputs, name: str) -> str:
    """ "" where the lines of one are not known."""
    now, was = (line_keys(dict(one.lines).get(name, "")) for one in (a, b))
    if not now or not was:
        return ""
    rows = difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    changed = [row for row in rows if row[0] != "equal"]
    new, gone = sum(r[4] - r[3] for r in changed), sum(r[2] - r[1] for r in changed)
    return f" (+{new} -{gone} lines)"


def _arguments(judge: _Judge) -> Iterator[Difference]:
    now, was = judge.a.plan.argv, judge.b.plan.argv
    if now == was:
        return
    ours, theirs = (" ".join(_only(x, y)) or "nothing" for x, y in ((now, was), (was, now)))
    sizes = bool(_SIZES.search(f"{ours} {theirs}".lower())) or now[:1] != was[:1]
    text = f"arguments: {ours}, against {theirs}"
    yield Difference("arguments", text, ours, theirs, weight=judge.work(1.0 if sizes else 0.6))


def _only(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Options with their values that the others do not have."""
    known = set(_options(others))
    mine = [one for one in _options(words) if one not in known]
    return [" ".join(SecretMask().document(one)) for one in mine]


def _options(words: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for word in words:
        takes = found and len(found[-1]) == 1 and found[-1][0].startswith("-")
        if takes and not word.startswith("-") and "=" not in found[-1][0]:
            found[-1] = (*found[-1], word)
        else:
            found.append((word,))
    return found


def _ranks(judge: _Judge) -> Iterator[Difference]:
    now, was = ([h.host for h in run.plan.hosts] for run in (judge.a, judge.b))
    counts = [run.plan.world_size for run in (judge.a, judge.b)]
    grown = judge.grown
    if counts[0] != counts[1]:
        text = f"{counts[0]} ranks, against {counts[1]}"
        weight = 0.8 * (1 - grown.idle) if grown else 0.0
        yield Difference("ranks", text, str(counts[0]), str(counts[1]), weight=weight)
    if sorted(now) != sorted(was):
        new = grown is not None and (grown.host in now) != (grown.host in was)
        text = f"hosts: {fold(now)}, against {fold(was)}"
        weight = 0.95 if new else 0.3 if grown else 0.0
        yield Difference("hosts", text, fold(now), fold(was), weight=weight)


# --- what the hosts were --------------------------------------------------------------------------


def _facts(judge: _Judge) -> Iterator[Difference]:
    """Facts that differ; hosts that differ alike are one difference."""
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for host in sorted({*judge.a.hosts} & {*judge.b.hosts}):
        for one in _of_host(judge, host):
            found.setdefault((one.slug, one.now, one.was), []).append(one)
    for same in found.values():
        where = fold(one.host for one in same)
        best = max(same, key=lambda one: one.weight)
        yield replace(best, host=where, text=f"{where}: {best.text}")


def _of_host(judge: _Judge, host: str) -> Iterator[Difference]:
    a, b = judge.a.hosts[host], judge.b.hosts[host]
    grown = judge.grown if judge.grown and judge.grown.host == host else None
    yield from _threads(judge, host, grown)
    if a.quota != b.quota:
        now, was = (f"{q:g} CPUs" if q else "no limit" for q in (a.quota, b.quota))
        text = f"the control group allows {now}, against {was}"
        yield Difference("cpu-quota", text, now, was, host, _quota(judge, host))
    power = grown.computing if grown else 0.0
    rows = (
        ("cpu", "CPU", a.cpu, b.cpu, 0.9 * power),
        ("governor", "CPU governor", ", ".join(a.governors), ", ".join(b.governors), 0.9 * power),
        ("frequency", "highest CPU frequency", _ghz(a.max_khz), _ghz(b.max_khz), 0.9 * power),
        ("turbo", "turbo", _on(a.turbo), _on(b.turbo), 0.9 * power),
        ("huge-pages", "transparent huge pages", a.thp, b.thp, 0.3 * power),
        ("kernel", "kernel", a.kernel, b.kernel, 0.2 * power),
        ("memory", "memory", human(a.memory or 0), human(b.memory or 0), 0.0),
    )
    for slug, what, now, was, weight in rows:
        if now != was:
            words = f"{what} {now or 'unknown'}, against {was or 'unknown'}"
            yield Difference(slug, words, now, was, host, weight)
    yield from _network(judge, host)
    yield from _variables(judge, host)


def _threads(judge: _Judge, host: str, grown: Growth | None) -> Iterator[Difference]:
    """Ranks compute with other numbers of threads, or on other CPUs."""
    now, was = judge.a.threads(host), judge.b.threads(host)
    fell = judge.threads_fell and grown is not None
    weight = grown.computing + grown.idle if grown and fell else 0.0
    slow, fast = judge.slow.threads(host), judge.fast.threads(host)
    if grown and slow and fast and slow > fast:  # more threads than CPUs
        weight = 0.95 * grown.waited
    if now != was:
        text = f"ranks compute with {_count(now, 'thread')}, against {_count(was, 'thread')}"
        text += _of_whom(judge.slow, host)
        yield Difference("threads", text, str(now), str(was), host, weight)
    now, was = judge.a.cpus(host), judge.b.cpus(host)
    if now != was:
        fewer = (judge.slow.cpus(host) or 0) < (judge.fast.cpus(host) or 0)
        share = max(weight, grown.waited) if grown and fewer else 0.0
        text = f"ranks may use {_count(now, 'CPU')}, against {_count(was, 'CPU')}"
        yield Difference("cpu-set", text, str(now), str(was), host, share)


def _of_whom(run: RunRecord, host: str) -> str:
    """OMP_NUM_THREADS where the user set it to less than the plan."""
    plan, set_to = run.plan_of(host), run.threads(host)
    own = plan is not None and plan.threads is not None and set_to != plan.threads
    return f" (OMP_NUM_THREADS={set_to} in {run.name})" if own else ""


def _quota(judge: _Judge, host: str) -> float:
    """It explains all where the slow run has the smaller one, and uses it up."""
    slow, fast = judge.slow.hosts[host].quota, judge.fast.hosts[host].quota
    pace = judge.slow.paces.get(host)
    if judge.grown is None or slow is None or (fast or slow + 1) <= slow or pace is None:
        return 0.0
    return 1.0 if sum(rank.cpus for rank in pace.ranks) >= BINDS * slow else 0.0


def _network(judge: _Judge, host: str) -> Iterator[Difference]:
    ours, theirs = judge.a.plan_of(host), judge.b.plan_of(host)
    share = judge.grown.sending if judge.grown else 0.0
    if ours and theirs and ours.nic != theirs.nic:
        text = f"ranks use the interface {ours.nic}, against {theirs.nic}"
        yield Difference("network", text, ours.nic, theirs.nic, host, share)
    now, was = judge.a.hosts[host].speed, judge.b.hosts[host].speed
    if now != was:
        text = f"its link has {now or '?'} Mbit/s, against {was or '?'}"
        yield Difference("link-speed", text, str(now), str(was), host, share)


def _variables(judge: _Judge, host: str) -> Iterator[Difference]:
    now, was = (dict(run.hosts[host].variables) for run in (judge.a, judge.b))
    told = {"OMP_NUM_THREADS"} | ({"GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "CCL_KVS_IFACE"})
    names = [n for n in sorted({*now, *was}) if now.get(n) != was.get(n) and n not in told]
    if not names:
        return
    tuning = any(_TUNING.match(name) for name in names)
    words = [f"{n}={now.get(n, 'unset')}, against {was.get(n, 'unset')}" for n in names]
    ours, theirs = (str([known.get(name) for name in names]) for known in (now, was))
    weight = judge.work(0.8 if tuning else 0.3)
    yield Difference("variables", _some(words), ours, theirs, host, weight)


def _some(words: Sequence[str]) -> str:
    more = [f"{len(words) - SOME} more"] if len(words) > SOME else []
    return ", ".join([*words[:SOME], *more])


def _count(number: int | None, noun: str) -> str:
    return f"{'?' if number is None else number} {noun}{'s' * (number != 1)}"


def _ghz(khz: int | None) -> str:
    return f"{khz / 1e6:.2f} GHz" if khz else ""


def _on(value: bool | None) -> str:  # noqa: FBT001
    return {True: "on", False: "off"}.get(value, "") if value is not None else ""
