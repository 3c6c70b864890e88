"""Read a launcher's command line: the options of each launcher, and the script that it starts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace

from ipexctl.base.located_errors import did_you_mean
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.launchers.launcher_table import (
    ASSIGNMENT,
    Flag,
    Launcher,
    Launchers,
    listed_values,
)
from ipexctl.user_code.launchers.line_request import (
    COUNTS,
    Given,
    LineRequest,
    Refuse,
    nested,
    raised,
    request_of,
)
from ipexctl.user_code.launchers.not_scripts import meant
from ipexctl.user_code.typed_word import assignment, for_pasting, is_fixed, tail, unsplit

PAGE = "docs/pasted-lines.md"
_ELSE = f"leave it out, or use an option of ipexctl run   # full list: {PAGE}"
_ONCE = frozenset({*COUNTS, "hostfile", "config"})
_VARIABLES = frozenset({"env", "env-forward", "variable"})
MOST_WORDS, MOST_LAUNCHERS = 10_000, 20  # of a line that a person or a program wrote
_ONLY_ASKS = frozenset({"--version", "--help", "-h", "-V", "-version", "-help"})
_SUGGESTED = 20  # unknown options for which similar ones are looked for
_EXTRA = frozenset({"env", "env-list", "env-forward", "variable", "ignored"})


@dataclass(frozen=True)
class Line:
    """`requests`: of each launcher, the outer one first."""

    requests: tuple[LineRequest, ...]
    launchers: tuple[Launcher, ...]
    script: tuple[str, ...]  # and its arguments
    start: int  # where the script stands among the words

    @property
    def module(self) -> bool:
        return self.requests[-1].module

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(one.remark for one in self.launchers if one.remark)

    @property
    def starts_ranks(self) -> tuple[str, ...]:
        """The launchers that do, as they were called."""
        pairs = zip(self.requests, self.launchers, strict=True)
        return tuple(request.who for request, launcher in pairs if launcher.starts_ranks)

    def filled(self, config: LineRequest | None) -> tuple[LineRequest, ...]:
        """The requests; where one reads the Accelerate config, with what that adds."""
        pairs = zip(self.requests, self.launchers, strict=True)
        return tuple(
            request.filled(config) if config and launcher.config else request
            for request, launcher in pairs
        )

    @property
    def reads_config(self) -> bool:
        return any(one.config for one in self.launchers)


def read(
    words: Sequence[str], launchers: Launchers, *, module: bool = False, refuse: Refuse = raised
) -> Line | None:
    """None for a line that starts no launcher. `module`: after ipexctl's own -m. `refuse` gets what
    is not supported, and reading goes on behind it. Raises InputError if there is no script."""
    if module:
        launcher = launchers.of_module(words[0]) if words else None
        found = (launcher, f"python -m {words[0]}", 1) if launcher else None
    else:
        found = launchers.of(words)
    if found and len(words) > MOST_WORDS:
        raise InputError(
            f"{found[1]}: the line has more than {MOST_WORDS:,} words",
            slug="launcher-line-too-long",
        )
    return _Reader(launchers, refuse).line(words, found) if found else None


def read_options(
    name: str, words: Sequence[str], launchers: Launchers, refuse: Refuse
) -> LineRequest:
    """Options of a launcher without what it starts, as in the #SBATCH lines of a job."""
    return _Reader(launchers, refuse).options(launchers.called(name), name, words)[0]


@dataclass(frozen=True)
class Started:
    """Ranks that a program starts. `name`: of the launcher, as it is called."""

    name: str
    script: str  # "train.py", "-m pkg.train"; "" where that is not known


def started_by(words: Sequence[str], launchers: Launchers) -> Started | None:
    """None for a command that starts no ranks. It may have words that only the run knows."""
    found = launchers.of(words)
    if not found or _ONLY_ASKS & set(words):
        return None
    reader, script = _Reader(launchers, lambda *_: None), ""
    with suppress(InputError):
        line = reader.line(words, found)
        script = f"-m {line.script[0]}" if line.module else line.script[0]
    pairs = zip(reader.requests, reader.seen, strict=True)
    names = [request.who for request, launcher in pairs if launcher.starts_ranks]
    known = script.endswith(".py") or script.startswith("-m ")
    return Started(names[0], script if known else "") if names else None


@dataclass
class _Reader:
    launchers: Launchers
    refuse: Refuse
    requests: list[LineRequest] = field(default_factory=list)
    seen: list[Launcher] = field(default_factory=list)

    def line(self, words: Sequence[str], found: tuple[Launcher, str, int] | None) -> Line:
        size = len(words)
        while found:
            launcher, name, count = found
            if len(self.seen) == MOST_LAUNCHERS:
                raise InputError(
                    f"the line starts more than {MOST_LAUNCHERS} launchers",
                    slug="too-many-launchers",
                )
            if launcher.starts == "command" and launcher.starts_ranks and ":" in words:
                first = words[: words.index(":")]
                self.refuse(
                    InputError(
                        f"{name} ... : ... starts several programs (MPMD)",
                        why="ipexctl run starts one script on all ranks",
                        hint="branch on RANK in the script, or use a separate ipexctl run ... "
                        "SCRIPT for each program",
                        slug="several-programs",
                    ),
                    for_pasting(words[len(first) :]),
                )
                size, words = size - len(words) + len(first), first
            request, words = self.options(launcher, name, words[count:])
            self._add(launcher, request)
            found, words = self._next(launcher, request, words)
        return Line(tuple(self.requests), tuple(self.seen), tuple(words), size - len(words))

    def _add(self, launcher: Launcher, request: LineRequest) -> None:
        gives_way = launcher.gives_way
        for i, outer in enumerate(self.requests):
            self.requests[i], request = nested(
                outer, request, gives_way=gives_way, refuse=self.refuse
            )
        self.requests.append(request)
        self.seen.append(launcher)

    def _next(
        self, launcher: Launcher, request: LineRequest, words: Sequence[str]
    ) -> tuple[tuple[Launcher, str, int] | None, Sequence[str]]:
        """What the launcher starts: another one, if it is not the script."""
        if not words:
            raise InputError(
                f"{request.who}: the script is missing",
                hint=f"ipexctl run {request.who} ... SCRIPT",
                slug="script-not-given",
            )
        if request.module:
            inner = self.launchers.of_module(words[0]) if not launcher.starts_ranks else None
            return (inner, f"{request.who} -m {words[0]}", 1) if inner else None, words
        if launcher.starts == "script":
            return None, words
        if not self._is_program(words):
            why, hint = meant(words)
            error = InputError(
                f"{request.who} starts {for_pasting(words[:1])}, which is not a Python script",
                why=why or "ipexctl run starts Python and the ranks on every host itself",
                hint=hint or "ipexctl run ... SCRIPT, or ipexctl run ... -m MODULE",
                slug="not-a-script",
            )
            starts = any(one.starts_ranks for one in self.seen)
            later = (i for i in range(len(words)) if starts and self._is_program(words[i : i + 3]))
            at = next(later, 0)
            self.refuse(error, for_pasting(words[:at]))
            if not at:
                raise error
            words = words[at:]
        return self.launchers.of(words), words

    def _is_program(self, words: Sequence[str]) -> bool:
        return words[0].endswith(".py") or bool(self.launchers.of(words))

    def options(
        self, launcher: Launcher, name: str, words: Sequence[str]
    ) -> tuple[LineRequest, Sequence[str]]:
        reading = _Options(launcher, name, list(words), self._is_program, self.refuse)
        for one in reading:
            reading.take(one)
        request = reading.request()
        for option, text in reading.more:
            more = self._mpi_words(f"{name} {option}", text)
            env, ignored = (*request.env, *more.env), (*request.ignored, *more.ignored)
            request = replace(request, env=env, ignored=ignored)
        return request, reading.words

    def _mpi_words(self, name: str, text: str) -> LineRequest:
        """Options of mpirun inside one word: only variables and ignored options are accepted."""
        try:
            words = shlex.split(text)
        except ValueError as e:
            self.refuse(
                InputError(f"{name} {text}: {e}", slug="quoting-invalid"), f"{name} {text}", str(e)
            )
            words = []
        mpirun = self.launchers.called("mpirun")
        reading = _Options(mpirun, name, words, self._is_program, self.refuse)
        for one in reading:
            if one.flag.becomes in (*_EXTRA, "refused"):
                reading.take(one)
                continue
            error = InputError(
                f"{name}: {one.typed} does not belong there",
                why="only variables are read there",
                hint="use an option of ipexctl run, before the script",
                slug="mpi-option-unsupported",
            )
            self.refuse(error, f"{name} {one.typed}")
        if reading.words:
            error = InputError(
                f"{name}: {reading.words[0]} is not an option of mpirun",
                hint=f"quote the whole value: {name} '-genv NAME VALUE'",
                slug="launcher-option-unknown",
            )
            self.refuse(error)
        return reading.request()


@dataclass
class _Options:
    """Reads the options of one launcher; afterwards `words` has what follows them."""

    launcher: Launcher
    name: str
    words: list[str]
    is_program: Callable[[Sequence[str]], bool]
    refuse: Refuse
    found: list[Given] = field(default_factory=list)
    more: list[tuple[str, str]] = field(default_factory=list)  # words of mpirun, in one
    assigned: list[str] = field(default_factory=list)  # NAME=VALUE before the program
    before: dict[object, Given] = field(default_factory=dict)  # by `_meaning`
    unknown: int = 0
    last_program: int = -1  # how many words there are from it on, once that was looked for

    def __iter__(self) -> Iterator[Given]:
        while self.words and (self._is_option(self.words[0]) or self._only_shell_knows()):
            word = self.words.pop(0)
            if word == "--":
                break
            if one := self._one(word):
                yield one
        while self.launcher.assignments and self.words and ASSIGNMENT.fullmatch(self.words[0]):
            self.assigned.append(unsplit(self.words.pop(0)))

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and word != "-"

    def _only_shell_knows(self) -> bool:
        """$OPTIONS before the program."""
        words, size = self.words, len(self.words)
        if is_fixed(words[0]) or self.is_program(words[:3]):
            return False
        if self.last_program < 0:
            later = (
                i for i in range(size, 0, -1) if self.is_program(words[size - i : size - i + 3])
            )
            self.last_program = min(later, default=0)
        return 0 < self.last_program < size

    def _one(self, word: str) -> Given | None:
        name, sign, attached = word.partition("=")
        flags = self.launcher.named(name)
        if not flags:
            if short := self._apart(word):
                return self._one(short)
            self._unknown(word)
            return None
        values = flags[0].values
        given = [attached] if sign else self.words[:values]
        if values == 2 and given and "=" in given[0]:
            given = given[:1]  # -genv NAME=VALUE
        elif not sign and (len(given) < values or (values == 1 and self._is_known(given[0]))):
            self.refuse(
                InputError(f"{self.name} {word}: a value is missing", slug="option-value-missing"),
                word,
                "no value",
            )
            return None
        if not sign:
            del self.words[: len(given)]
        typed = f"{name}={for_pasting(given)}" if sign else for_pasting((word, *given))
        if sign and not values and not any(flag.value for flag in flags):
            error = InputError(
                f"{self.name} {typed}: {name} takes no value", slug="option-takes-no-value"
            )
            self.refuse(error, typed, "it takes no value")
            return None
        value = assignment(*given) if len(given) == 2 else next(iter(given), "")
        can_be = [flag for flag in flags if flag.becomes != "refused"]
        for flag in flags if is_fixed(value) else can_be or flags:
            taken = flag.taken(value)
            if taken is not None:
                return Given(flag, taken, typed)
        what, why, hint = _wrong_value(value, can_be)
        self.refuse(
            InputError(
                f"{self.name} {typed}: {what}",
                why=why,
                hint=hint,
                slug="launcher-value-unsupported",
            ),
            typed,
            what,
        )
        return None

    def _is_known(self, word: str) -> bool:
        return self._is_option(word) and bool(self.launcher.named(word.partition("=")[0]))

    def _apart(self, word: str) -> str:
        """-Wignore -> -W ignore, -um -> -u -m; "" for an unknown option."""
        short = self.launcher.named(word[:2]) if word[1:2] != "-" and len(word) > 2 else ()
        if not short or self.launcher.any_dashes:
            return ""
        rest = tail(word, 2)
        if short[0].value and not short[0].values:
            return f"{word[:2]}={rest}"  # -K1
        self.words.insert(0, rest if short[0].values else f"-{rest}")
        return word[:2]

    def _unknown(self, word: str) -> None:
        """The next word is its value, if it begins neither an option nor the program."""
        name, sign, _ = word.partition("=")
        given = [word]
        if not (sign or not self.words or self._is_option(self.words[0])):
            given += [] if self.is_program(self.words[:3]) else [self.words.pop(0)]
        self.unknown += 1
        suggested = self.launcher.flags if self.unknown <= _SUGGESTED else ()
        known = [name for flag in suggested for name in flag.names]
        meant = did_you_mean(self.launcher.spelled(name), known)
        reason = f"unknown option{meant}" if is_fixed(name) else "only the shell knows what it is"
        self._not_taken(f"{self.name}: unknown option {name}{meant}", for_pasting(given), reason)

    def take(self, one: Given) -> None:
        if problem := self._problem(one):
            self.refuse(problem[0], one.typed, problem[1])
            return
        if one.flag.becomes == "mpi-words":
            self.more.append((re.split("[ =]", one.typed)[0], one.value))
        self.found.append(one)
        self.before.setdefault(_meaning(one), one)
        self.before.setdefault(("first", one.flag.becomes), one)

    def _problem(self, one: Given) -> tuple[InputError, str] | None:
        """Why it is not supported here, or contradicts an earlier one; also in a few words."""
        flag, value, typed = one.flag, one.value, one.typed
        if flag.becomes == "refused":
            error = InputError(
                f"{self.name} {typed} is not supported here",
                why=flag.why,
                hint=flag.type,
                slug="launcher-option-unsupported",
            )
            return error, flag.why
        known = is_fixed(value)
        if flag.becomes in COUNTS and known and not re.fullmatch("[1-9][0-9]{0,8}", value):
            error = InputError(
                f"{self.name} {typed}: expected a whole number of at least 1", slug="not-a-count"
            )
            return error, "expected a whole number of at least 1"
        if (earlier := self.before.get(_meaning(one))) and earlier.value != value:
            first, second = _shown(earlier), _shown(one)
            error = InputError(
                f"{self.name}: {first} and {second} contradict each other"
                if first != second
                else f"{self.name}: {first} is given twice, with different values",
                hint="leave one of them out",
                slug="launcher-options-contradict",
            )
            return error, f"it contradicts {first}"
        others = {"hostfile": "hosts", "hosts": "hostfile"}.get(flag.becomes)
        if earlier := self.before.get(("first", others)):
            error = InputError(
                f"{self.name} {earlier.typed} and {typed}: hosts are given twice",
                hint="use one of them; for some hosts of a file: -f FILE -l HOST,HOST",
                slug="hosts-given-twice",
            )
            return error, f"{earlier.typed} names the hosts"
        return None

    def request(self) -> LineRequest:
        env = (*self.launcher.sets, *self.assigned)
        ppn = self.launcher.default_ppn
        return request_of(self.name, self.found, env=env, default_ppn=ppn)

    def _not_taken(self, what: str, typed: str, reason: str) -> None:
        error = InputError(
            what,
            why=f"ipexctl run replaces {self.name} and rejects options that it does not know",
            hint=_ELSE,
            slug="launcher-option-unknown",
        )
        self.refuse(error, typed, reason)


def _wrong_value(value: str, flags: Sequence[Flag]) -> tuple[str, str, str]:
    """What is wrong with it, why, and what to type."""
    if not is_fixed(value):
        return "only the shell knows the value", "", "write the value in place of the variable"
    if any(flag.becomes in COUNTS for flag in flags):
        return "expected a number", "", ""
    if known := listed_values(flag.value for flag in flags):
        return "unknown value", f"supported values: {known}", _ELSE
    return "unsupported value", "", _ELSE


def _meaning(one: Given) -> object:
    """A key that is equal for options with the same meaning, whose values must not differ."""
    becomes = one.flag.becomes
    if becomes in _VARIABLES:
        return "variable", _variable(one)
    if becomes == "option":
        return "option", one.flag.as_
    return ("once", becomes) if becomes in _ONCE else ("", becomes, one.value)


def _shown(one: Given) -> str:
    """Without the value of a variable, which may be a secret."""
    extra = one.flag.becomes in _EXTRA
    return f"{one.typed.split()[0]} {_variable(one)}" if extra else one.typed


def _variable(one: Given) -> str:
    return (one.flag.as_ if one.flag.becomes == "variable" else one.value).partition("=")[0]
