"""Read a launcher's command line: the options of each launcher, and the script that it starts."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field

from ipexctl.base.located_errors import ask_if_meant, nearest_word
from ipexctl.base.quoting import quote_for_pasting
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
    NUMBER,
    Given,
    LineRequest,
    nest_requests,
    request_of,
    requested_counts,
)
from ipexctl.user_code.launchers.not_scripts import explain_not_script, starts_others

_ELSE = "leave it out, or use -n, -ppn, -f, -H, -l, -x or --env of ipexctl run   # see its --help"
_STARTER_OPTIONS = {
    "-n": "n",
    "-np": "n",
    "--ntasks": "n",
    "--num-proc": "n",
    "--ntasks-per-node": "ppn",
    "-N": "nodes",
    "--nodes": "nodes",
    "-w": "-l",
    "--nodelist": "-l",
}
MOST_PROGRAMS = 6  # with env and python between two launchers
_ONLY_ASKS = frozenset({"--version", "--help", "-h", "-V", "-version", "-help"})


@dataclass(frozen=True)
class PastedLine:
    """A line. `requests`: of each launcher, the outer one first."""

    requests: tuple[LineRequest, ...]
    script: tuple[str, ...]  # and its arguments
    start: int  # the index of the script among the words

    @property
    def is_module(self) -> bool:
        return self.requests[-1].is_module

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(launcher.remark for launcher in self._launchers if launcher.remark)

    @property
    def starts_ranks(self) -> tuple[str, ...]:
        """The launchers that start ranks, as they were called."""
        return tuple(r.who for r in self.requests if r.launcher and r.launcher.starts_ranks)

    @property
    def reads_config(self) -> bool:
        return any(launcher.config for launcher in self._launchers)

    @property
    def _launchers(self) -> list[Launcher]:
        return [request.launcher for request in self.requests if request.launcher]


def read_pasted_line(
    words: Sequence[str], launchers: Launchers, *, module: bool = False
) -> PastedLine | None:
    """Return None for a line without a launcher. `module`: after ipexctl's own -m.

    Raises InputError for what is not supported, and if there is no script.
    """
    if module:
        launcher = launchers.of_module(words[0]) if words else None
        match = (launcher, f"python -m {words[0]}", 1) if launcher else None
    else:
        match = launchers.find_launcher(words)
    return _Reader(launchers).read_words(words, match) if match else None


def words_before_python(words: Sequence[str], launchers: Launchers) -> Sequence[str]:
    """Return a program such as srun or numactl and its options, if a Python script, or a launcher
    of one, follows; else (). A Python before the script is one of them."""
    rests = (i for i in range(1, len(words)) if _starts_python(words[i:], launchers))
    end = next(rests, 0) if starts_others(words) else 0
    found = launchers.find_launcher(words[end:]) if end else None
    is_python = found is not None and found[0].name == "python" and found[2] == 1
    is_script = "".join(words[end + 1 : end + 2]).endswith(".py")
    return words[: end + 1] if is_python and is_script else words[:end]


def options_of_starter(words: Sequence[str], launchers: Launchers) -> list[str]:
    """Return what srun or horovodrun and these options of theirs are for `ipexctl run`; [] before
    a launcher, which has its own."""
    before = words_before_python(words, launchers)
    if not before or posixpath.basename(words[0]) not in ("srun", "horovodrun"):
        return []
    inner = launchers.find_launcher(words[len(before) :])
    if inner and inner[0].starts_ranks:
        return []
    counts: dict[str, int] = {}
    options: list[str] = []
    for name, value in _option_values(before[1:]):
        meaning = _STARTER_OPTIONS[name]
        if meaning == "-l":
            options += ["-l", value]
        elif re.fullmatch(NUMBER, value):
            counts[meaning] = int(value)
    with suppress(InputError):  # ranks that the hosts cannot share evenly
        n, ppn = requested_counts(LineRequest(words[0], **counts))  # type: ignore[arg-type]
        both = (("-n", n), ("-ppn", ppn))
        options += [word for name, count in both if count for word in (name, str(count))]
    return options


def _option_values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of _STARTER_OPTIONS: -n 3, -n3, --ntasks 3 or --ntasks=3."""
    for i, word in enumerate(words):
        name, sign, value = word.partition("=") if word[:2] == "--" else (word[:2], "", word[2:])
        name = "-np" if word == "-np" else name
        if name in _STARTER_OPTIONS:
            attached = sign or (value and name != word)
            yield name, value if attached else "".join(words[i + 1 : i + 2])


def _starts_python(words: Sequence[str], launchers: Launchers) -> bool:
    return words[0].endswith(".py") or launchers.find_launcher(words) is not None


def is_launch(words: Sequence[str], launchers: Launchers) -> bool:
    """Decide whether a command starts ranks, also if `read_pasted_line` refuses it."""
    match = launchers.find_launcher(words)
    if not match or _ONLY_ASKS & set(words):
        return False
    reader = _Reader(launchers)
    with suppress(InputError):
        reader.read_words(words, match)
    return bool(reader.starters)


@dataclass
class _Reader:
    launchers: Launchers
    requests: list[LineRequest] = field(default_factory=list)
    starters: list[str] = field(default_factory=list)  # that start ranks, as they are called

    def read_words(
        self, words: Sequence[str], match: tuple[Launcher, str, int] | None
    ) -> PastedLine:
        """Read the options of each launcher, from the outer one to the script."""
        size = len(words)
        while match:
            launcher, name, count = match
            self.starters += [name] if launcher.starts_ranks else []
            if len(self.requests) == MOST_PROGRAMS or len(self.starters) > 2:
                raise InputError(
                    "ipexctl run reads at most two launchers, one inside the other",
                    hint="# leave out the outer one",
                    slug="too-many-launchers",
                )
            if launcher.starts == "command" and launcher.starts_ranks and ":" in words:
                raise InputError(
                    f"{name} ... : ... starts several programs (MPMD)",
                    why="ipexctl run starts one script on all ranks",
                    hint="branch on RANK in the script",
                    slug="several-programs",
                )
            reading = _Options(launcher, name, list(words[count:]))
            reading.read()
            request, words = reading.make_request(), reading.words
            for i, outer in enumerate(self.requests):
                self.requests[i], request = nest_requests(
                    outer, request, gives_way=launcher.gives_way
                )
            self.requests.append(request)
            match = self._next_launcher(launcher, request, words)
        return PastedLine(tuple(self.requests), tuple(words), size - len(words))

    def _next_launcher(
        self, launcher: Launcher, request: LineRequest, words: Sequence[str]
    ) -> tuple[Launcher, str, int] | None:
        """Return the launcher that this one starts; None if it starts the script."""
        if not words:
            raise InputError(
                f"{request.who}: the script is missing",
                hint=f"# ipexctl run {request.who} ... SCRIPT",
                slug="script-not-given",
            )
        if request.is_module:
            module = self.launchers.of_module(words[0]) if not launcher.starts_ranks else None
            return (module, f"{request.who} -m {words[0]}", 1) if module else None
        if launcher.starts == "script":
            return None
        inner = self.launchers.find_launcher(words)
        if not inner and not words[0].endswith(".py"):
            why, hint = explain_not_script(words)
            program = quote_for_pasting((words[0],))
            raise InputError(
                f"{request.who} starts {program}, which is not a Python script",
                why=why or "ipexctl run starts Python and the ranks on every host itself",
                hint=hint or "# ipexctl run ... SCRIPT, or -m MODULE",
                slug="not-a-script",
            ).with_surplus(words_before_python(words, self.launchers))
        return inner


@dataclass
class _Options:
    """Reads the options of one launcher; afterwards `words` has what follows them."""

    launcher: Launcher
    name: str
    words: list[str]
    found: list[Given] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)  # NAME=VALUE before the program

    def read(self) -> None:
        while self.words and self._is_option(self.words[0]):
            word = self.words.pop(0)
            if word == "--":
                break
            self._take_option(self._read_option(word))
        while self.launcher.assignments and self.words and ASSIGNMENT.fullmatch(self.words[0]):
            self.assigned.append(self.words.pop(0))

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and word != "-"

    def _read_option(self, word: str) -> Given:
        """Read an option and its value from `words`. Raises InputError."""
        name, sign, attached = word.partition("=")
        flags = self.launcher.find_flags(name)
        if not flags:
            raise self._unknown_option_error(word)
        values = flags[0].values
        words = [attached] if sign else self.words[:values]
        if values == 2 and words and "=" in words[0]:
            words = words[:1]  # -genv NAME=VALUE
        elif not sign and (len(words) < values or (values == 1 and self._is_known(words[0]))):
            raise InputError(f"{self.name} {word}: a value is missing", slug="option-value-missing")
        if not sign:
            del self.words[: len(words)]
        quoted = quote_for_pasting((*([] if sign else [word]), *words))
        typed = f"{name}={quoted}" if sign else quoted
        if sign and not values:
            raise InputError(
                f"{self.name} {typed}: {name} takes no value", slug="option-takes-no-value"
            )
        value = "=".join(words)
        for flag in flags:
            taken = flag.accept_value(value)
            if taken is not None:
                return Given(flag, taken, typed)
        message, why, hint = _wrong_value([flag for flag in flags if flag.becomes != "refused"])
        raise InputError(
            f"{self.name} {typed}: {message}", why=why, hint=hint, slug="launcher-value-unsupported"
        )

    def _is_known(self, word: str) -> bool:
        return self._is_option(word) and bool(self.launcher.find_flags(word.partition("=")[0]))

    def _unknown_option_error(self, word: str) -> InputError:
        name = word.partition("=")[0]
        names = [name for flag in self.launcher.flags for name in flag.names]
        near = nearest_word(self.launcher.normalize_option(name), names)
        if self.launcher.any_dashes and name.startswith("--"):
            near = near and f"-{near}"
        return InputError(
            f"{self.name}: unknown option {name}{ask_if_meant(near)}",
            why=f"ipexctl run replaces {self.name} and rejects options that it does not know",
            hint=_ELSE,
            slug="launcher-option-unknown",
        ).with_meant(name, near)

    def _take_option(self, given: Given) -> None:
        """Take an option. Raises InputError if it is unsupported."""
        flag, value, typed = given.flag, given.value, given.typed
        if flag.becomes == "refused":
            error = InputError(
                f"{self.name} {typed} is not supported here",
                why=flag.why,
                hint=flag.type,
                slug="launcher-option-unsupported",
            )
            words = shlex.split(typed)
            if flag.can_be_left_out:
                error.with_surplus(words, value if flag.enters else "")
            name, sign, attached = words[-1].partition("=")
            raise error.with_meant(attached if sign else name, flag.value_instead(value))
        if flag.becomes in COUNTS and not re.fullmatch(NUMBER, value):
            raise InputError(
                f"{self.name} {typed}: expected a whole number of at least 1", slug="not-a-count"
            )
        self.found.append(given)

    def make_request(self) -> LineRequest:
        return request_of(self.name, self.found, self.launcher, self.assigned)


def _wrong_value(flags: Sequence[Flag]) -> tuple[str, str, str]:
    """Return what is wrong with the value, why, and what to type."""
    if any(flag.becomes in COUNTS for flag in flags):
        return "expected a number", "", ""
    if supported := listed_values(flag.value for flag in flags):
        return "unknown value", f"supported values: {supported}", _ELSE
    return "unsupported value", "", _ELSE
