"""The request of a launcher's line or an Accelerate config, and how several are combined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.launchers.launcher_table import Flag, Launcher

COUNTS = {"ranks": "n", "ranks-per-host": "ppn", "host-count": "nodes"}
NUMBER = "[1-9][0-9]{0,8}"


@dataclass(frozen=True)
class Given:
    """An option or key that was read: its row of the table, its value, and how it was typed."""

    flag: Flag
    value: str
    typed: str

    @property
    def variables(self) -> Sequence[str]:
        """Words as --env takes them."""
        becomes, name = self.flag.becomes, self.flag.as_
        if becomes == "env-list":
            return [name for name in self.value.split(",") if name]
        if becomes == "variable":
            return [name if "=" in name else f"{name}={self.value}"]
        return [self.value] if becomes in ("env", "env-forward") else []


@dataclass(frozen=True)
class LineRequest:
    """A request. `who`: a launcher as it was called, or a config's file."""

    who: str
    given: tuple[Given, ...] = ()
    launcher: Launcher | None = None  # None: a config
    assigned: tuple[str, ...] = ()  # NAME=VALUE before a program
    ignored: tuple[tuple[str, str], ...] = ()  # each with its reason
    n: int | None = None
    ppn: int | None = None
    nodes: int | None = None  # the number of hosts

    def option_values(self, meaning: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.value for row in self.given if row.flag.becomes == meaning))

    def words(self, *meanings: str) -> str:
        """Return the options with these meanings as they were typed."""
        return " ".join(option.typed for option in self.given if option.flag.becomes in meanings)

    @property
    def env(self) -> tuple[str, ...]:
        set_by_options = (item for option in self.given for item in option.variables)
        return tuple(dict.fromkeys((*self.assigned, *set_by_options)))

    @property
    def is_module(self) -> bool:
        return any(option.flag.becomes == "module" for option in self.given)

    @property
    def has_counts(self) -> bool:
        return any(number is not None for number in (self.n, self.ppn, self.nodes))

    @property
    def names_hosts(self) -> bool:
        return bool(self.option_values("hostfile") or self.option_values("hosts"))

    @property
    def default_ppn(self) -> int:
        """The ranks of each host if only a number of hosts is given; 0: all hosts take part."""
        return self.launcher.default_ppn if self.launcher else 1

    def fill_counts(self, other: LineRequest) -> LineRequest:
        """Add missing counts from `other`: --num_machines, and a config with num_processes."""
        if not self.has_counts or not self.launcher or not self.launcher.config:
            return self
        ppn = self.ppn or other.ppn
        return replace(self, n=self.n or other.n, ppn=ppn, nodes=self.nodes or other.nodes)

    def without_counts(self) -> LineRequest:
        return replace(self, n=None, ppn=None, nodes=None)


def request_of(
    who: str, given: Sequence[Given], launcher: Launcher | None = None, assigned: Sequence[str] = ()
) -> LineRequest:
    counts = {COUNTS[g.flag.becomes]: int(g.value) for g in given if g.flag.becomes in COUNTS}
    ignored = tuple((g.typed, g.flag.why) for g in given if g.flag.becomes == "ignored")
    return LineRequest(who, tuple(given), launcher, tuple(assigned), ignored, **counts)


@dataclass(frozen=True)
class TypedOptions:
    """Options of ipexctl run that were typed before the line; `hosts` and `counts` as typed."""

    names: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()  # names of variables
    hosts: str = ""
    counts: str = ""


@dataclass
class Merged:
    """The equivalent options of ipexctl run."""

    options: list[str] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)
    overridden: list[str] = field(default_factory=list)
    counts: bool = False  # the number of ranks is given

    def describe_conflicts(self) -> Iterator[str]:
        if self.ignored:
            reasons = dict.fromkeys(why for _, why in self.ignored)
            texts = {why: ", ".join(t for t, w in self.ignored if w == why) for why in reasons}
            yield f"ignored: {', '.join(f'{text} ({why})' for why, text in texts.items())}"
        yield from self.overridden


def merge_requests(layers: Sequence[LineRequest], typed: TypedOptions) -> Merged:
    """Merge the layers: our own options win, then the first layer that sets an option."""
    merged = Merged(counts=bool(typed.counts))
    _take_hosts(merged, layers, typed)
    _take_counts(merged, layers, typed)
    for request in layers:
        for given in (given for given in request.given if given.flag.becomes == "option"):
            name = given.flag.as_
            if name in typed.names or name in merged.options:
                merged.overridden.append(f"{name} {given.value} of {request.who} is overridden")
            else:
                merged.options += [name, given.value]
        for option, meaning in (("-l", "limit"), ("-x", "exclude")):
            for value in request.option_values(meaning):
                merged.options += [word for part in value.split("@") for word in (option, part)]
        merged.ignored += request.ignored
    _take_env(merged, layers, typed)
    return merged


def _take_hosts(merged: Merged, layers: Sequence[LineRequest], typed: TypedOptions) -> None:
    """Take the hosts of the first layer that names some; note those that are overridden."""
    winner = typed.hosts
    for request in layers:
        if not request.names_hosts:
            continue
        if winner:
            text = request.words("hostfile", "hosts")
            merged.overridden.append(f"{text} of {request.who} is overridden by {winner}")
            continue
        winner = f"the hosts of {request.who}"
        for option, meaning in (("-f", "hostfile"), ("-H", "hosts")):
            merged.options += [
                word for item in request.option_values(meaning) for word in (option, item)
            ]


def _take_counts(merged: Merged, layers: Sequence[LineRequest], typed: TypedOptions) -> None:
    """Take the counts of ranks from the first layer that has some; note the others."""
    winner = typed.counts
    for request in layers:
        if not request.has_counts:
            continue
        text = request.words("ranks", "ranks-per-host", "host-count")
        if winner:
            merged.overridden.append(f"{text} of {request.who} is overridden by {winner}")
            continue
        n, ppn = requested_counts(request)
        hosts = request.words("host-count")
        if hosts and (n is None or ppn is None):
            merged.ignored.append((hosts, "all hosts take part; -l HOST,HOST chooses some"))
        for name, count in (("-n", n), ("-ppn", ppn)):
            if count is not None:
                winner, merged.counts = f"that of {request.who}", True
                merged.options += [name, str(count)]


def requested_counts(request: LineRequest) -> tuple[int | None, int | None]:
    """Return the total number of ranks and that of each host, if the request gives them."""
    n, ppn, nodes = request.n, request.ppn, request.nodes
    if n is None and nodes is not None:
        ppn = ppn or request.default_ppn or None
        n = nodes * ppn if ppn else None
    elif ppn is None and n is not None and nodes is not None:
        if n % nodes:
            raise InputError(
                f"{request.who}: {n} ranks cannot be divided evenly among {nodes} hosts",
                why="each host gets the same number",
                hint="# set -n and -ppn, before the script",
                slug="ranks-not-divisible",
            )
        ppn = n // nodes
    return n, ppn


def _take_env(merged: Merged, layers: Sequence[LineRequest], typed: TypedOptions) -> None:
    seen: dict[str, str] = dict.fromkeys(typed.env, "--env before it")
    words: list[str] = []
    for request in reversed(layers):  # the inner launcher sets it last
        for item in request.env:
            name = item.partition("=")[0]
            if name in seen:
                merged.overridden.append(f"{name} of {request.who} is overridden by {seen[name]}")
                continue
            words += ["--env", item]
        seen |= {item.partition("=")[0]: f"that of {request.who}" for item in request.env}
    merged.options += words


def nest_requests(
    outer: LineRequest, inner: LineRequest, *, gives_way: bool
) -> tuple[LineRequest, LineRequest]:
    """Decide which of mpirun and a launcher inside it sets the number of ranks."""
    if gives_way or not (outer.has_counts and inner.has_counts):
        return outer, inner
    if (inner.ppn or 1) == 1 and (inner.nodes or 1) == 1 and (inner.n or 1) == 1:
        return outer, inner
    first, second = (line.words("ranks", "ranks-per-host", "host-count") for line in (outer, inner))
    if outer.n in (None, inner.nodes or 1) and outer.ppn in (None, 1):
        dropped = (first, f"{inner.who} starts the ranks of a host")
        return replace(outer.without_counts(), ignored=(*outer.ignored, dropped)), inner
    raise InputError(
        f"{outer.who} {first} starts {inner.who} {second}, and both start several ranks",
        why=f"each {inner.who} that {outer.who} starts would start ranks of its own",
        hint="# set both: ipexctl run -n RANKS -ppn RANKS_PER_HOST SCRIPT",
        slug="launchers-both-start-ranks",
    )
