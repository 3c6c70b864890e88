"""A Stack becomes a Lock: uv resolves on this machine for the hosts' Python and platform.

Which index torch comes from is decided by trying: the user's own (a CPU build has the version
X+cpu), else the table's index for torch alone, else the first of the user's that has X. If that is
a CUDA build it is only named: somebody has to agree to it. Where Intel's packages may come from,
index_pins.py says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ipexctl.errors import InputError
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.install.stack.requirements import NOTHING, Extra
from ipexctl.install.stack.selection import Stack, requirements
from ipexctl.install.stack.version_table import of_intel
from ipexctl.packages.index_pins import Pin, Pins, of_torch, places, unpinned_reserved
from ipexctl.packages.indexes import Indexes, plain
from ipexctl.packages.uv import ALONE, ANY_INDEX, HIDDEN, NO_ANSWER, Found, Unresolved, Uv
from ipexctl.quick_dataclass import dataclass

Urls = Mapping[str, str]
TOOLS_PYTHON = (3, 9)
OTHER_BUILDS = "are different builds and do not load together"


@dataclass(frozen=True)
class Resolved:
    """A lock whose sizes may be unknown, and where each file (by sha256) can be fetched now.

    `no_cpu_build`: why torch is a CUDA build; "" where it is not, or a lock had it already.
    """

    stack: Stack
    lock: Lock
    urls: Urls
    no_cpu_build: str = ""
    notes: tuple[str, ...] = ()  # warnings


@dataclass(frozen=True)
class _Way:
    """One way to ask for torch: the requirement, and the index that it alone comes from."""

    torch: str
    index: Pin | None = None
    last: bool = False  # any of the user's indexes, and it may be a CUDA build

    @property
    def text(self) -> str:
        return f"{self.torch} from {self.index.url if self.index else 'your indexes'}"


@dataclass(frozen=True)
class _Solved:
    uv: Uv
    way: _Way
    wanted: tuple[str, ...]
    pins: Pins
    found: tuple[Found, ...]
    constraints: tuple[str, ...] = ()


def resolve(
    candidates: Sequence[Stack],
    indexes: Indexes,
    environ: Mapping[str, str],
    extra: Extra = NOTHING,
    preferred: Mapping[str, str] | None = None,
) -> Resolved:
    """The first candidate that torch can be had for, a CPU build before a CUDA build. `preferred`:
    versions, by name, of the lock before.

    Raises InputError with what each way of getting torch answered.
    """
    search = _Search([Uv(stack, indexes, environ, preferred) for stack in candidates], extra)
    solved = search.solved()
    stack = solved.uv.stack
    with ThreadPoolExecutor(1) as pool:
        tools = pool.submit(lambda: _labelled(_tool(stack, indexes, environ)))
        found, (tool,) = _labelled(solved), tools.result()
    lock = Lock(
        row=stack.row.name,
        torch=stack.row.torch,
        mpi=stack.mpi,
        python=stack.python_text,
        platform=stack.platform,
        packages=tuple(sorted((f.package for f in found), key=lambda p: p.name)),
        uv=tool.package,
        requirements=extra.requirements,
        constraints=extra.constraints,
    )
    urls = {f.package.sha256: f.url for f in (*found, tool)}
    no_cpu_build = search.no_cpu_build() if lock.cuda else ""
    return Resolved(stack, lock, urls, no_cpu_build)


def _tool(stack: Stack, indexes: Indexes, environ: Mapping[str, str]) -> _Solved:
    """uv runs no Python, so its wheel may be for a newer one than the hosts'."""
    uv = _for_tools(stack, indexes, environ)
    try:
        found = uv.compile(("uv",), {}, ALONE)
    except Unresolved as e:
        why = str(e) if e.network else f"hosts need uv to build an environment: {e}"
        raise _cannot_be_had(stack, why) from None
    return _Solved(uv, _Way("uv"), ("uv",), {}, tuple(found))


def _for_tools(stack: Stack, indexes: Indexes, environ: Mapping[str, str]) -> Uv:
    return Uv(replace(stack, python=max(stack.python, TOOLS_PYTHON), patch=None), indexes, environ)


def _labelled(solved: _Solved) -> list[Found]:
    """Each package with the kind of index that it came from."""
    origins = solved.uv.origins(solved.wanted, solved.pins, constraints=solved.constraints)
    row = solved.uv.stack.row
    known = {plain(row.torch_index): "pytorch", plain(row.links): "intel"}

    def kind(name: str) -> str:
        url = origins.each.get(name, "")
        return known.get(url) or ("default" if url == origins.default else "own")

    return [
        replace(f, package=replace(f.package, index=kind(f.package.name))) for f in solved.found
    ]


class _Search:
    """For the stacks of one row, which differ in the Python."""

    def __init__(self, uvs: Sequence[Uv], extra: Extra) -> None:
        self._uvs = uvs
        self._extra = extra
        self._indexes = uvs[0].indexes
        self._row = uvs[0].stack.row
        self._reasons: dict[tuple[str, str], list[str]] = {}
        self._silent: set[str] = set()  # indexes that gave no answer; they are not asked again

    def solved(self) -> _Solved:
        """Each way for every Python before the next way: what the user set up comes first."""
        usable = list(self._with_intel())
        if found := self._try(usable, self._extra):
            return found
        if self._extra.requirements:
            with_them = tuple(self._reasons)
            if found := self._try(usable, NOTHING):
                raise _does_not_go_with(found, with_them)
        raise self._cannot_be_had()

    def _try(self, usable: Sequence[tuple[Uv, Pins]], extra: Extra) -> _Solved | None:
        for way in self._ways() if usable else ():
            for uv, intel in usable:
                try:
                    return _one(uv, intel, way, extra)
                except Unresolved as e:
                    self._note(way.text, uv, str(e))
                    if e.network and not way.index:  # the user's own indexes are in every way
                        raise self._cannot_be_had() from None
                    if e.network and way.index:
                        self._silent.add(way.index.url)
                        break
        return None

    def no_cpu_build(self) -> str:
        index = self._row.torch_index
        said = [f"your indexes have no torch {self._row.torch}+cpu"]
        if index in self._silent:
            said.append(f"{index} did not answer")
        elif not self._indexes.no_index:
            said.append(f"{index} has no version that fits")
        return ", and ".join(said)

    def _ways(self) -> Iterator[_Way]:
        row, index = self._row, of_torch(self._row)
        cpu, plainly = f"torch=={row.torch}+cpu", f"torch=={row.torch}"
        yield _Way(cpu)
        # a page of links has the CUDA builds too, and `+cu` sorts after `+cpu`
        tables = _Way(cpu if index.flat else plainly, index)
        if index.url not in self._silent and not self._indexes.no_index:
            yield tables
        yield _Way(plainly, last=True)

    def _with_intel(self) -> Iterator[tuple[Uv, Pins]]:
        for uv in self._uvs:
            try:
                yield uv, intel_pins(uv, self._silent)
            except Unresolved as e:
                self._note("", uv, str(e))

    def _note(self, asked: str, uv: Uv, why: str) -> None:
        self._reasons.setdefault((asked, why), []).append(uv.stack.python_text)

    def _cannot_be_had(self) -> InputError:
        why = "\n".join(
            f"{asked + ', ' if asked else ''}Python {', '.join(dict.fromkeys(pythons))}: {why}"
            for (asked, why), pythons in self._reasons.items()
        )
        return _cannot_be_had(self._uvs[0].stack, why)


def _one(uv: Uv, intel: Pins, way: _Way, extra: Extra) -> _Solved:
    named: Iterable[str] = ()
    if way.index:
        # the default index's builds of the others cannot load beside a CPU build of torch
        beside = [name for name in ("torchvision", "torchaudio") if extra.names(name)]
        pins: Pins = {**intel, **dict.fromkeys(["torch", *beside], way.index)}
    else:
        pins = {**intel, **(_home_of_torch(uv, way.torch) if way.last else {})}
        # uv heeds a pin only for what is asked for by its name
        named = (name for name in pins if name not in ("torch", *intel))
    own = (way.torch, *named, *requirements(uv.stack))
    wanted, constraints = (*own, *extra.requirements), extra.constraints
    try:
        found = uv.compile(wanted, pins, constraints=constraints)
    except Unresolved as e:
        if not _hidden(e, pins):
            raise
        own, pins = _from_later_indexes(uv, own, pins)
        wanted = (*own, *extra.requirements)
        found = uv.compile(wanted, pins, constraints=constraints)
    if other_builds(found, uv.stack.arch):
        wanted, pins, found = _of_one_build(uv, way, wanted, pins, extra, found)
    stray = unpinned_reserved((f.package for f in found), uv.stack.row, pins)
    if stray and not uv.indexes.no_index:
        raise Unresolved(
            f"{', '.join(stray)} would come from a public index, where anybody can publish"
        )
    return _Solved(uv, way, wanted, pins, tuple(found), extra.constraints)


def _hidden(e: Unresolved, pins: Pins) -> list[str]:
    return [name for name in e.hidden if name != "torch" and name not in pins]


def _from_later_indexes(
    uv: Uv, wanted: tuple[str, ...], pins: Pins
) -> tuple[tuple[str, ...], Pins]:
    """The stack's own packages, pinned to a later index where the first that has them has none for
    these hosts: a mirror for one Python. Those that only the user names stay as uv's rule has it,
    which protects private names from look-alikes."""
    named = {str(canonicalize_name(Requirement(text).name)): text for text in wanted}
    while True:
        try:
            uv.compile(wanted, pins)
            return wanted, pins
        except Unresolved as e:
            hidden = _hidden(e, pins)
            if not hidden:
                raise
        for name in hidden:
            origins = uv.origins((named.get(name, name),), {}, ALONE, *ANY_INDEX)
            if origins.each[name] not in origins.indexes:
                raise Unresolved(f"{name} is in a folder of wheels, but an index takes precedence")
            pins = {**pins, name: Pin(uv.indexes.with_login(origins.each[name]))}
            wanted = (*wanted, *([] if name in named else [name]))


def other_builds(found: Sequence[Found], arch: str) -> list[str]:
    """Of torchvision and torchaudio what is built for another torch: its operators are missing
    when it is used. For aarch64 all builds are CPU builds, under two names."""
    builds = {f.package.name: f.package.version.partition("+")[2].partition(".")[0] for f in found}
    if arch != "x86_64" or "torch" not in builds:
        return []
    torch = builds["torch"]
    return [n for n in ("torchvision", "torchaudio") if builds.get(n, torch) != torch]


def _of_one_build(
    uv: Uv, way: _Way, wanted: tuple[str, ...], pins: Pins, extra: Extra, before: Sequence[Found]
) -> tuple[tuple[str, ...], Pins, list[Found]]:
    """The same with torchvision and torchaudio that are built for this torch: as +cpu from where
    torch is, else from the table's index. uv heeds both only for what is asked for by its name."""
    versions = {f.package.name: f.package.version for f in before}
    names = other_builds(before, uv.stack.arch)
    index = way.index or of_torch(uv.stack.row)
    tries: list[tuple[tuple[str, ...], Pins]] = []
    if versions["torch"].endswith("+cpu"):
        exact = (f"{name}=={versions[name].partition('+')[0]}+cpu" for name in names)
        tries.append(((*wanted, *exact), pins))
        if not (index.flat or uv.indexes.no_index):
            tries.append(((*wanted, *names), {**pins, **dict.fromkeys(names, index)}))
    for asked, sources in tries:
        try:
            found = uv.compile(asked, sources, constraints=extra.constraints)
        except Unresolved:
            continue
        if not other_builds(found, uv.stack.arch):
            return asked, sources, found
    what = " and ".join(f"{name} {versions[name]}" for name in names)
    raise Unresolved(f"{what} and torch {versions['torch']} {OTHER_BUILDS}")


def _home_of_torch(uv: Uv, torch: str) -> dict[str, Pin]:
    """torch and what it needs, each pinned to torch's index if it is there.

    An index that serves but a newer torch, or a newer triton, hides those of the next index.
    """
    origins = uv.origins((torch,), {}, *ANY_INDEX)
    home = origins.each["torch"]
    if home not in origins.indexes:
        return {}  # a folder or page of wheels, which hides nothing
    url = uv.indexes.with_login(home)
    return {name: Pin(url) for name, place in origins.each.items() if place == home}


def intel_pins(uv: Uv, silent: set[str]) -> Pins:
    """Where Intel's packages of the row are. Indexes in `silent` are not asked; one that gives no
    answer is added. Raises Unresolved."""
    found = {name: _place(uv, name, v, silent) for name, v in of_intel(uv.stack.row).items()}
    return {name: place for name, place in found.items() if place}


def _place(uv: Uv, name: str, version: str, silent: set[str]) -> Pin | None:
    if uv.indexes.no_index:
        return None  # all there is are the user's own folders
    reasons = []
    for place in places(uv.stack.row, name, uv.indexes):
        where = plain(place.url) if place else "the default index"
        if place and place.url in silent:
            reasons.append(f"{where}: no answer")
            continue
        try:
            uv.compile((f"{name}=={version}",), {name: place} if place else {}, ALONE)
            return place
        except Unresolved as e:
            reasons.append(f"{where}: {e}")
            if place and e.network:
                silent.add(place.url)
    raise Unresolved(f"{name} {version} is not available: {'; '.join(reasons)}")


def _cannot_be_had(stack: Stack, why: str) -> InputError:
    row = stack.row
    title = row.title if row.ipex else f"torch {row.torch}"
    hint = (
        "--extra-index-url URL or --find-links FOLDER   # one that has torch "
        f"{row.torch}+cpu; or another --torch or --python"
    )
    if row.ipex:
        hint = "--find-links FOLDER   # one that has these wheels; or --stack stock, without IPEX"
    hint = _next_step(why) or hint
    if NO_ANSWER.search(why):
        return InputError(
            f"cannot resolve {title}: a package index could not be read",
            why=why,
            hint=hint,
            slug="index-no-answer",
        )
    return InputError(
        f"{title} is not available for {stack.platform}",
        why=why,
        hint=hint,
        slug="stack-not-available",
    )


def _next_step(why: str) -> str:
    """What to do where the reason is an index; "" where it is not."""
    if NO_ANSWER.search(why) or "401 Unauthorized" in why or "403 Forbidden" in why:
        return (
            "check the index's address, login (~/.netrc), certificate (PIP_CERT) and proxy "
            "(HTTPS_PROXY), then run the same command again"
        )
    if hidden := [name for name in HIDDEN.findall(why) if name != "torch"]:
        then = f"also searches the next index for {hidden[0]}: only if you trust that index"
        return f"export UV_INDEX_STRATEGY=unsafe-first-match   # {then}"
    return ""


def _does_not_go_with(found: _Solved, reasons: Iterable[tuple[str, str]]) -> InputError:
    """`found`: the same without what -r asks for."""
    stack = found.uv.stack
    why = "\n".join(why for asked, why in reasons if asked == found.way.text)
    hint = "change that file; a package without a wheel: pip wheel NAME -w FOLDER, "
    if OTHER_BUILDS in why:
        index = plain(stack.row.torch_index)
        hint = f"fetch the +cpu wheels for torch {stack.row.torch} from {index}, "
    return InputError(
        f"the requirements given with -r do not fit {stack.title} on Python {stack.python_text}",
        why=why,
        hint=_next_step(why) or hint + "then --find-links FOLDER",
        slug="requirements-do-not-fit",
    )


# --- a lock that is there already ----------------------------------------------------------------


def locate(stack: Stack, lock: Lock, indexes: Indexes, environ: Mapping[str, str]) -> Urls:
    """Where the files of a lock that is already there can be had: only the sha256 decides."""
    uv, tools = Uv(stack, indexes, environ), _for_tools(stack, indexes, environ)
    there: dict[str, Found] = {}  # by sha256
    reasons: list[str] = []
    for pins, options in _places_of(uv, lock, reasons):
        for asked, files in ((uv, lock.packages), (tools, (lock.uv,))):
            try:
                lacking = [p for p in files if p.sha256 not in there]
                there |= {f.package.sha256: f for f in _offered(asked, lacking, pins, options)}
            except Unresolved as e:
                reasons.append(str(e))
                if e.network:
                    break  # the other files are asked for at the next place
        if all(p.sha256 in there for p in lock.files):
            return {p.sha256: there[p.sha256].url for p in lock.files}
    raise _not_located(lock, there, reasons)


def _offered(uv: Uv, files: Sequence[Package], pins: Pins, options: Sequence[str]) -> list[Found]:
    """All wheels of these versions: the index may have others for the hosts by now."""
    exact = [f"{p.name}=={p.version}" for p in files]
    kept = {name: pin for name, pin in pins.items() if name in {p.name for p in files}}
    return uv.wheels(exact, kept, ALONE, *options) if files else []


def _places_of(uv: Uv, lock: Lock, reasons: list[str]) -> Iterator[tuple[Pins, tuple[str, ...]]]:
    """Where the lock says that they were, then wherever else they could be."""
    try:
        intel = intel_pins(uv, set())
    except Unresolved as e:
        reasons.append(str(e))
        return
    torch = {"torch": of_torch(uv.stack.row)}
    if not any(p.index == "pytorch" for p in lock.packages):
        torch = {}
    default = uv.origins((), {}).default
    theirs = {
        p.name: Pin(uv.indexes.with_login(default)) for p in lock.files if p.index == "default"
    }
    yield {**theirs, **torch, **intel} if default else intel, ()
    yield intel, ANY_INDEX
    if not uv.indexes.no_index:
        yield {**intel, "torch": of_torch(uv.stack.row)}, ANY_INDEX


def _not_located(lock: Lock, there: Mapping[str, Found], reasons: Iterable[str]) -> InputError:
    hint = "rm ipexctl.lock   # the next install resolves the versions again"
    names = {f.package.name for f in there.values()}
    others = [p for p in lock.files if p.sha256 not in there and p.name in names]
    if not others:
        why = "\n".join(dict.fromkeys(reasons))
        what = "your indexes do not have what ipexctl.lock names"
        if NO_ANSWER.search(why):
            what = "cannot find the files of ipexctl.lock: a package index could not be read"
        return InputError(what, why=why, hint=_next_step(why) or hint, slug="locked-files-missing")
    return InputError(
        f"{others[0].file} on your indexes differs from the one in ipexctl.lock",
        why=f"nothing there has sha256 {others[0].sha256}",
        hint=hint,
        slug="locked-file-differs",
    )
