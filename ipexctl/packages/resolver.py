"""Resolve a Stack to a Lock: uv resolves on the controller for the hosts' Python and platform.

The index of torch is found by trying: the user's own (a CPU build has the version X+cpu), else the
table's index for torch alone, else X from the user's own. A CUDA build is only proposed: the user
has to agree to it.

Intel's names never come from an index where anyone can register them. `oneccl_bind_pt` and others
are unclaimed on the default index, and a person who took the name there could run code on every
host. So only the user's own folders of wheels and Intel's index are searched for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ipexctl.errors import InputError
from ipexctl.packages.indexes import Indexes, plain_index_url
from ipexctl.packages.uv import ALONE, ANY_INDEX, NO_ANSWER, FoundUv, Pin, Pins, Unresolved, Uv
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.stack.requirements import NOTHING, Extra
from ipexctl.stack.selection import Stack, stack_requirements
from ipexctl.stack.version_table import IPEX, RESERVED, StackRow, of_intel

Urls = Mapping[str, str]
TOOLS_PYTHON = (3, 9)
TORCHES = ("torch", "torchaudio", "torchvision")  # built together; useless with another build


@dataclass(frozen=True)
class Resolved:
    """A lock whose sizes may be unknown, and the present address of each file (by sha256).

    `no_cpu_build`: why torch is a CUDA build; "" if it is not, or a lock had it before.
    """

    stack: Stack
    lock: Lock
    urls: Urls
    no_cpu_build: str = ""
    notes: tuple[str, ...] = ()  # warnings


@dataclass(frozen=True)
class _Way:
    """One way to request torch: the requirement, and the only index for it."""

    torch: str
    index: Pin | None = None

    def __str__(self) -> str:
        return f"{self.torch} from {self.index.url if self.index else 'your indexes'}"


def resolve_stack(
    candidates: Sequence[Stack],
    indexes: Indexes,
    environ: Mapping[str, str],
    extra: Extra = NOTHING,
    preferred: Mapping[str, str] | None = None,
) -> Resolved:
    """Resolve the first candidate for which torch is available, a CPU build before a CUDA build.
    `preferred`: versions, by name, of the previous lock.

    Raises InputError with uv's message about each way to get torch.
    """
    search = _Search([Uv(stack, indexes, environ, preferred) for stack in candidates], extra)
    stack, wheels = search.find_stack()
    tool = _resolve_uv(stack, indexes, environ)
    lock = Lock(
        row=stack.row.name,
        torch=stack.row.torch,
        mpi=stack.mpi,
        python=stack.python_text,
        platform=stack.platform,
        packages=tuple(sorted((wheel.package for wheel in wheels), key=lambda p: p.name)),
        uv=tool.package,
        requirements=extra.requirements,
        constraints=extra.constraints,
    )
    urls = {wheel.package.sha256: wheel.url for wheel in (*wheels, tool)}
    no_cpu_build = search.no_cpu_build() if lock.cuda else ""
    return Resolved(stack, lock, urls, no_cpu_build)


def _resolve_uv(stack: Stack, indexes: Indexes, environ: Mapping[str, str]) -> FoundUv:
    try:
        return _for_tools(stack, indexes, environ).compile(("uv",), {}, ALONE)[0]
    except Unresolved as e:
        why = str(e) if e.network else f"hosts need uv to build an environment: {e}"
        raise _cannot_be_had(stack, why) from None


def _for_tools(stack: Stack, indexes: Indexes, environ: Mapping[str, str]) -> Uv:
    """Return uv for tools: its wheel may be for a newer Python than the hosts', as it runs none."""
    return Uv(replace(stack, python=max(stack.python, TOOLS_PYTHON), patch=None), indexes, environ)


class _Search:
    """Searches for the stacks of one row, which differ in the Python."""

    def __init__(self, uvs: Sequence[Uv], extra: Extra) -> None:
        self._uvs = uvs
        self._extra = extra
        self._indexes = uvs[0].indexes
        self._row = uvs[0].stack.row
        self._reasons: dict[tuple[str, str], list[str]] = {}
        self._silent: set[str] = set()  # indexes that gave no answer; they are skipped from then on

    def find_stack(self) -> tuple[Stack, list[FoundUv]]:
        """Try each way for every Python before the next way: the user's own indexes come first."""
        usable = list(self._pin_intel())
        for way in self._list_ways() if usable else ():
            for uv, intel in usable:
                try:
                    return uv.stack, _compile_with_torch(uv, intel, way, self._extra)
                except Unresolved as e:
                    self._note_reason(str(way), uv, str(e))
                    if e.network and not way.index:  # every way uses the user's own indexes
                        raise self._unsolved_error() from None
                    if e.network and way.index:
                        self._silent.add(way.index.url)
                        break
        raise self._unsolved_error()

    def no_cpu_build(self) -> str:
        index = self._row.torch_index
        reasons = [f"your indexes have no torch {self._row.torch}+cpu"]
        if index in self._silent:
            reasons.append(f"{index} did not answer")
        elif not self._indexes.no_index:
            reasons.append(f"{index} has no version that fits")
        return ", and ".join(reasons)

    def _list_ways(self) -> Iterator[_Way]:
        index = of_torch(self._row)
        cpu, plainly = f"torch=={self._row.torch}+cpu", f"torch=={self._row.torch}"
        yield _Way(cpu)
        if index.url not in self._silent and not self._indexes.no_index:
            # a page of links has the CUDA builds too, and `+cu` sorts after `+cpu`
            yield _Way(cpu if index.flat else plainly, index)
        yield _Way(plainly)

    def _pin_intel(self) -> Iterator[tuple[Uv, Pins]]:
        for uv in self._uvs:
            try:
                yield uv, intel_pins(uv, self._silent)
            except Unresolved as e:
                self._note_reason("", uv, str(e))

    def _note_reason(self, way: str, uv: Uv, why: str) -> None:
        self._reasons.setdefault((way, why), []).append(uv.stack.python_text)

    def _unsolved_error(self) -> InputError:
        why = "\n".join(
            f"{way + ', ' if way else ''}Python {', '.join(dict.fromkeys(pythons))}: {why}"
            for (way, why), pythons in self._reasons.items()
        )
        return _cannot_be_had(self._uvs[0].stack, why, self._extra)


def _compile_with_torch(uv: Uv, intel: Pins, way: _Way, extra: Extra) -> list[FoundUv]:
    """Resolve one way. Raises Unresolved."""
    requirements = (way.torch, *stack_requirements(uv.stack), *extra.requirements)
    pins = dict(intel)
    if way.index:
        torches = [name for name in TORCHES if name == "torch" or extra.names_package(name)]
        pins |= dict.fromkeys(torches, way.index)
    wheels = uv.compile(requirements, pins, constraints=extra.constraints)
    if builds := _other_builds(wheels, uv.stack.arch):
        wheels = _of_one_build(uv, requirements, pins, way, extra, builds)
    stray = {wheel.package.name for wheel in wheels} & RESERVED - allowed_names(uv.stack.row, pins)
    if stray and not uv.indexes.no_index:
        names = ", ".join(sorted(stray))
        raise Unresolved(
            f"{names} would come from a public index, where anybody can publish; only some rows of "
            "the version table bring it: --ipex, or --backend ccl"
        )
    return wheels


def _other_builds(wheels: Sequence[FoundUv], arch: str) -> dict[str, str]:
    """Return torch, torchvision and torchaudio with their versions if their builds differ: then
    operators are missing at run time. For aarch64 all builds are CPU builds, under two names."""
    family = {f.package.name: f.package.version for f in wheels if f.package.name in TORCHES}
    builds = {version.partition("+")[2].partition(".")[0] for version in family.values()}
    return family if len(builds) > 1 and arch == "x86_64" else {}


def _of_one_build(
    uv: Uv, needs: Sequence[str], pins: Pins, way: _Way, extra: Extra, versions: Mapping[str, str]
) -> list[FoundUv]:
    """Resolve again with the +cpu builds of torchvision and torchaudio. Raises Unresolved."""
    exact = [f"{n}=={v.partition('+')[0]}+cpu" for n, v in versions.items() if n != "torch"]
    if not uv.indexes.no_index:
        # uv applies a pin only to packages that are requested by name
        index = way.index or of_torch(uv.stack.row)
        pins = {**pins, **{name: index for name in versions if name != "torch"}}
    try:
        if versions["torch"].endswith("+cpu"):
            return uv.compile((*needs, *exact), pins, constraints=extra.constraints)
    except Unresolved:
        pass
    names = " and ".join(f"{name} {versions[name]}" for name in TORCHES[::-1] if name in versions)
    raise Unresolved(f"{names} are different builds and do not load together")


# --- allowed sources of torch and Intel's packages ------------------------------------------------


def of_torch(row: StackRow) -> Pin:
    return Pin(row.torch_index, "torch_index" in row.flat)


def allowed_names(row: StackRow, pins: Pins) -> set[str]:
    """Return Intel's names that are known to come from Intel."""
    return {*pins, *((IPEX,) if row.public else ())}


def intel_pins(uv: Uv, silent: set[str]) -> Pins:
    """Return the sources of Intel's packages of the row. Indexes in `silent` are skipped; one that
    gives no answer is added. Raises Unresolved."""
    if uv.indexes.no_index:
        return {}  # only the user's own folders are used
    pins = {name: _find_pin(uv, name, v, silent) for name, v in of_intel(uv.stack.row).items()}
    return {name: place for name, place in pins.items() if place}


def _find_pin(uv: Uv, name: str, version: str, silent: set[str]) -> Pin | None:
    """Return the source of a package; None: the default index."""
    reasons = []
    for place in _places_to_try(uv.stack.row, name, uv.indexes):
        where = plain_index_url(place.url) if place else "the default index"
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


def _places_to_try(row: StackRow, name: str, indexes: Indexes) -> Iterator[Pin | None]:
    """Yield the sources of Intel's wheels, the user's own first; None is the default index."""
    for place in indexes.find_links:
        if "://" in place:
            yield Pin(place, flat=True)
        elif Path(place).is_dir():
            yield Pin(Path(place).absolute().as_uri(), flat=True)
    if row.links:
        yield Pin(row.links, "links" in row.flat)
    if name == IPEX and row.public:
        yield None


# --- an existing lock -----------------------------------------------------------------------------


def locate_files(stack: Stack, lock: Lock, indexes: Indexes, environ: Mapping[str, str]) -> Urls:
    """Return addresses for the files of an existing lock: only the sha256 decides."""
    uv, tools = Uv(stack, indexes, environ), _for_tools(stack, indexes, environ)
    located: dict[str, FoundUv] = {}  # by sha256
    reasons: list[str] = []
    try:
        intel = intel_pins(uv, set())
    except Unresolved as e:
        raise _not_located(lock, located, [str(e)]) from None
    places: list[tuple[Uv, Sequence[LockedPackage], Pins]]
    places = [(uv, lock.packages, intel), (tools, (lock.uv,), {})]
    if not indexes.no_index:
        places.append((uv, lock.packages, {**intel, "torch": of_torch(stack.row)}))
    for resolver, files, pins in places:
        if all(package.sha256 in located for package in files):
            continue
        try:
            located |= {f.package.sha256: f for f in _offered_wheels(resolver, files, pins)}
        except Unresolved as e:
            reasons.append(str(e))
            if e.network:
                break
    if all(package.sha256 in located for package in lock.files):
        return {package.sha256: located[package.sha256].url for package in lock.files}
    raise _not_located(lock, located, reasons)


def _offered_wheels(uv: Uv, files: Sequence[LockedPackage], pins: Pins) -> list[FoundUv]:
    """Return all wheels of these versions: the index may have others for the hosts by now."""
    exact = [f"{p.name}=={p.version}" for p in files]
    own_pins = {name: pin for name, pin in pins.items() if name in {p.name for p in files}}
    return uv.wheels(exact, own_pins, ALONE, *ANY_INDEX)


# --- errors --------------------------------------------------------------------------------------


def _cannot_be_had(stack: Stack, why: str, extra: Extra = NOTHING) -> InputError:
    row = stack.row
    title = row.title if row.ipex else f"torch {row.torch}"
    if NO_ANSWER.search(why):
        message = f"cannot resolve {title}: a package index could not be read"
        return InputError(message, why=why, hint=_next_step(why), slug="index-no-answer")
    if extra.requirements:
        return InputError(
            f"{title} and the requirements given with -r cannot be resolved for Python "
            f"{stack.python_text}, {stack.platform}",
            why=why,
            hint=_next_step(why)
            or "change that file; or choose its row: --torch VERSION, or --ipex "
            "VERSION; or put what has no wheel (pip wheel NAME "
            f"-w FOLDER) or +cpu wheels for torch {row.torch} into a folder: --find-links FOLDER",
            slug="requirements-do-not-fit",
        )
    hint = (
        "--extra-index-url URL or --find-links FOLDER   # one that has torch "
        f"{row.torch}+cpu; or another --torch or --python"
    )
    if row.ipex:
        hint = "--find-links FOLDER   # one that has these wheels; or --stack stock, without IPEX"
    return InputError(
        f"{title} is not available for {stack.platform}",
        why=why,
        hint=_next_step(why) or hint,
        slug="stack-not-available",
    )


def _next_step(why: str) -> str:
    """Return what to do if the reason is an index, else ""."""
    if NO_ANSWER.search(why) or "401 Unauthorized" in why or "403 Forbidden" in why:
        return (
            "check the index's address, login (~/.netrc), certificate (PIP_CERT) and proxy "
            "(HTTPS_PROXY), then run the same command again"
        )
    if "was found on" in why and "but not at the requested version" in why:
        return (
            "export UV_INDEX_STRATEGY=unsafe-first-match   # searches the next index, too: only if "
            "you trust all of them"
        )
    return ""


def _not_located(lock: Lock, located: Mapping[str, FoundUv], reasons: Iterable[str]) -> InputError:
    hint = "rm ipexctl.lock   # the next install resolves the versions again"
    names = {wheel.package.name for wheel in located.values()}
    differing = [p for p in lock.files if p.sha256 not in located and p.name in names]
    if differing:
        return InputError(
            f"{differing[0].file} on your indexes differs from the one in ipexctl.lock",
            why=f"nothing there has sha256 {differing[0].sha256}",
            hint=hint,
            slug="locked-file-differs",
        )
    why = "\n".join(dict.fromkeys(reasons))
    message = "your indexes do not have what ipexctl.lock names"
    if NO_ANSWER.search(why):
        message = "cannot find the files of ipexctl.lock: a package index could not be read"
    return InputError(message, why=why, hint=_next_step(why) or hint, slug="locked-files-missing")
