"""A launcher's command line -> what it says, and the script that it starts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ipexctl.core.inventory.located_errors import did_you_mean
from ipexctl.core.pasted.launcher_table import ASSIGNMENT, Flag, Launcher, Launchers
from ipexctl.core.pasted.line_request import LineRequest, nested
from ipexctl.core.quoting import quote_for_pasting
from ipexctl.errors import InputError

PAGE = "docs/pasted-lines.md"
_NUMBERS = {"ranks": "n", "ranks-per-host": "ppn", "host-count": "nodes"}
_ONCE = frozenset({*_NUMBERS, "hostfile", "config"})
_EXTRA = frozenset({"env", "env-list", "env-forward", "variable", "ignored"})


@dataclass(frozen=True)
class Line:
    """`requests`: of each launcher, the outer one first."""

    requests: tuple[LineRequest, ...]
    launchers: tuple[Launcher, ...]
    script: tuple[str, ...]  # and its arguments
    module: bool = False

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(one.remark for one in self.launchers if one.remark)

    @property
    def reads_config(self) -> bool:
        return any(one.config for one in self.launchers)


def read(words: Sequence[str], launchers: Launchers, *, module: bool = False) -> Line | None:
    """None for a line that starts no launcher. `module`: after ipexctl's own -m."""
    if module:
        launcher = launchers.of_module(words[0]) if words else None
        found = (launcher, f"python -m {words[0]}", 1) if launcher else None
    else:
        found = launchers.of(words)
    return _Reader(launchers).line(words, found) if found else None


@dataclass
class _Reader:
    launchers: Launchers
    requests: list[LineRequest] = field(default_factory=list)
    seen: list[Launcher] = field(default_factory=list)

    def line(self, words: Sequence[str], found: tuple[Launcher, str, int] | None) -> Line:
        while found:
            launcher, name, count = found
            if launcher.name == "mpirun" and ":" in words:
                raise InputError(
                    f"{name} ... : ... starts several programs (MPMD)",
                    why="a run of ipexctl has one script",
                    hint="choose by RANK in the script, or ipexctl run ... SCRIPT for each",
                )
            request, words = self._options(launcher, name, words[count:])
            self._add(launcher, request)
            found = self._next(launcher, request, words)
        request = self.requests[-1]
        return Line(tuple(self.requests), tuple(self.seen), tuple(words), request.module)

    def _add(self, launcher: Launcher, request: LineRequest) -> None:
        for i, outer in enumerate(self.requests):
            self.requests[i], request = nested(outer, request, gives_way=launcher.gives_way)
        self.requests.append(request)
        self.seen.append(launcher)

    def _next(
        self, launcher: Launcher, request: LineRequest, words: Sequence[str]
    ) -> tuple[Launcher, str, int] | None:
        if not words:
            raise InputError(
                f"{request.who}: the script is missing",
                hint=f"ipexctl run {request.who} ... SCRIPT",
            )
        if launcher.starts == "command":
            found = self.launchers.of(words)
            if not found and not words[0].endswith(".py"):
                raise InputError(
                    f"{request.who} starts {words[0]}, which is not a Python script",
                    why="ipexctl run starts Python and the ranks on every host itself",
                    hint="ipexctl run ... SCRIPT, or ipexctl run ... -m MODULE",
                )
            return found
        if launcher.name == "python" and request.module:
            inner = self.launchers.of_module(words[0])
            return (inner, f"{request.who} -m {words[0]}", 1) if inner else None
        return None

    def _options(
        self, launcher: Launcher, name: str, words: Sequence[str]
    ) -> tuple[LineRequest, Sequence[str]]:
        reading = _Options(launcher, name, list(words))
        for flag, value, typed in reading:
            reading.take(flag, value, typed)
        request = reading.request()
        for text in reading.more:
            more = self._mpi_words(f"{name} --extra-mpi-params", text)
            env, ignored = (*request.env, *more.env), (*request.ignored, *more.ignored)
            request = replace(request, env=env, ignored=ignored)
        return request, reading.words

    def _mpi_words(self, name: str, text: str) -> LineRequest:
        """Options of mpirun in one word: variables, and what is ignored."""
        try:
            words = shlex.split(text)
        except ValueError as e:
            raise InputError(f"{name} {text}: {e}") from None
        reading = _Options(self.launchers.called("mpirun"), name, words)
        for flag, value, typed in reading:
            reading.take(flag, value, typed)
            if flag.becomes not in _EXTRA:
                raise InputError(
                    f"{name}: {typed} does not belong there",
                    why="only variables are read there",
                    hint="use an option of ipexctl run, before the script",
                )
        if reading.words:
            raise InputError(
                f"{name}: {reading.words[0]} is not an option of mpirun",
                hint=f"quote what belongs to it: {name} '-genv NAME VALUE'",
            )
        return reading.request()


@dataclass
class _Options:
    """The options of one launcher; what is left in `words` afterwards follows them."""

    launcher: Launcher
    name: str
    words: list[str]
    found: list[tuple[Flag, str, str]] = field(default_factory=list)
    more: list[str] = field(default_factory=list)  # words of mpirun, in one
    assigned: list[str] = field(default_factory=list)  # NAME=VALUE before the program

    def __iter__(self) -> Iterator[tuple[Flag, str, str]]:
        while self.words and self.words[0].startswith("-") and self.words[0] != "-":
            word = self.words.pop(0)
            if word == "--":
                break
            yield self._one(word)
        while self.launcher.assignments and self.words and ASSIGNMENT.fullmatch(self.words[0]):
            self.assigned.append(self.words.pop(0))

    def _one(self, word: str) -> tuple[Flag, str, str]:
        name, sign, attached = word.partition("=")
        flags = self.launcher.named(name)
        if not flags:
            return self._one(self._apart(word))
        values = flags[0].values
        if sign and not values:
            raise InputError(f"{self.name} {word}: {name} takes no value")
        given = [attached] if sign else self.words[:values]
        if values == 2 and given and "=" in given[0]:
            given = given[:1]  # -genv NAME=VALUE
        elif len(given) < values and not sign:
            raise InputError(f"{self.name} {word}: a value is missing")
        if not sign:
            del self.words[: len(given)]
        typed = word if sign else quote_for_pasting((word, *given))
        value = "=".join(given)
        for flag in flags:
            if found := re.fullmatch(flag.value or "(?s:.*)", value):
                return flag, flag.as_value(found), typed
        raise self._not_taken(f"{self.name} {typed}: this value is not known")

    def _apart(self, word: str) -> str:
        """-Wignore -> -W ignore, -um -> -u -m; raises InputError for an unknown option."""
        short = self.launcher.named(word[:2]) if word[1:2] != "-" and len(word) > 2 else ()
        if not short or self.launcher.any_dashes:
            raise self._unknown(word)
        self.words.insert(0, word[2:] if short[0].values else f"-{word[2:]}")
        return word[:2]

    def take(self, flag: Flag, value: str, typed: str) -> None:
        """Raises InputError for an option that is refused or stands against an earlier one."""
        if flag.becomes == "refused":
            raise InputError(
                f"{self.name} {typed} cannot be taken over", why=flag.why, hint=flag.type
            )
        if flag.becomes in _NUMBERS and not re.fullmatch("[1-9][0-9]{0,8}", value):
            raise InputError(f"{self.name} {typed}: a whole number from 1 is needed")
        if flag.becomes == "mpi-words":
            self.more.append(value)
        for other, before, text in self.found:
            if _same(flag, other, value, before) and value != before:
                raise InputError(
                    f"{self.name}: {_shown(other, before, text)} and {_shown(flag, value, typed)} "
                    "contradict each other",
                    hint="leave one of them out",
                )
            if {flag.becomes, other.becomes} == {"hostfile", "hosts"}:
                raise InputError(
                    f"{self.name} {text} and {typed}: hosts are given twice",
                    hint="use one of them; for some hosts of a file: -f FILE -l HOST,HOST",
                )
        self.found.append((flag, value, typed))

    def request(self) -> LineRequest:
        numbers = {_NUMBERS[f.becomes]: int(v) for f, v, _ in self.found if f.becomes in _NUMBERS}
        return LineRequest(
            self.name,
            **numbers,
            hostfile=next(iter(self._values("hostfile")), ""),
            hosts=self._values("hosts"),
            limit=tuple(part for one in self._values("limit") for part in one.split("@")),
            exclude=tuple(part for one in self._values("exclude") for part in one.split("@")),
            env=tuple(dict.fromkeys(self._env())),
            options=tuple((f.as_, v) for f, v, _ in self.found if f.becomes == "option"),
            module=any(f.becomes == "module" for f, _, _ in self.found),
            config=next(iter(self._values("config")), ""),
            default_ppn=self.launcher.default_ppn,
            ignored=tuple(f"{t} ({f.why})" for f, _, t in self.found if f.becomes == "ignored"),
            typed=tuple((f.becomes, t) for f, _, t in self.found),
        )

    def _values(self, meaning: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v for flag, v, _ in self.found if flag.becomes == meaning))

    def _env(self) -> Iterator[str]:
        yield from self.assigned
        for flag, value, _ in self.found:
            if flag.becomes == "env-list":
                yield from filter(None, value.split(","))
            elif flag.becomes in ("env", "env-forward"):
                yield value
            elif flag.becomes == "variable":
                yield flag.as_ if "=" in flag.as_ else f"{flag.as_}={value}"

    def _unknown(self, word: str) -> InputError:
        name = word.partition("=")[0]
        known = [name for flag in self.launcher.flags for name in flag.names]
        return self._not_taken(
            f"{self.name}: unknown option {name}{did_you_mean(self.launcher.spelled(name), known)}"
        )

    def _not_taken(self, what: str) -> InputError:
        return InputError(
            what,
            why="ipexctl run takes the launcher's place and passes over none of its options",
            hint=f"leave it out, or use an option of ipexctl run   # all: {PAGE}",
        )


def _same(flag: Flag, other: Flag, value: str, before: str) -> bool:
    """Two words that say the same thing, so that both cannot hold."""
    if {flag.becomes, other.becomes} <= {"env", "env-forward", "variable"}:
        return _variable(flag, value) == _variable(other, before)
    if flag.becomes == other.becomes == "option":
        return flag.as_ == other.as_
    return flag.becomes == other.becomes and flag.becomes in _ONCE


def _shown(flag: Flag, value: str, typed: str) -> str:
    """Without the value of a variable, which may be a secret."""
    return f"{typed.split()[0]} {_variable(flag, value)}" if flag.becomes in _EXTRA else typed


def _variable(flag: Flag, value: str) -> str:
    return (flag.as_ if flag.becomes == "variable" else value).partition("=")[0]
