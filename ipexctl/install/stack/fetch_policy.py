"""Who fetches the files of an install: told by the user, or decided from what everybody reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

LONG = 60.0  # seconds; what takes less here is not worth asking an index once per host
MUCH = 3.0  # so much faster must the slowest host be, by samples that are as rough as these

Sample = tuple[int, float]  # bytes that came, and in how many seconds


class Fetch(Enum):
    CONTROLLER = "controller"
    NODE0 = "node0"
    EACH = "each"
    AUTO = "auto"


def parse_fetch(text: str) -> Fetch:
    try:
        return Fetch(text)
    except ValueError:
        words = ", ".join(f.value for f in Fetch)
        raise InputError(
            f"--fetch {text}: not a known value", hint=f"one of {words}", slug="unknown-value"
        ) from None


@dataclass(frozen=True)
class Decision:
    """`host`: which one fetches for all, with NODE0. `because` is for the user."""

    fetch: Fetch
    because: str
    host: str = ""


def seconds(sizes: Sequence[int], samples: Sequence[Sample]) -> float | None:
    """How long so many bytes of each site take; None where a site gives nothing."""
    if not all(came for came, _ in samples):
        return None
    return sum(size * took / came for size, (came, took) in zip(sizes, samples, strict=True))


def decide(here: float | None, hosts: Mapping[str, float | None], sites: Iterable[str]) -> Decision:
    """By how long it takes this machine, and each host; None: it does not reach all the sites."""
    reaching = {name: took for name, took in hosts.items() if took is not None}
    where = ", ".join(sites)
    if here is None and not reaching:
        return Decision(Fetch.CONTROLLER, f"neither this machine nor any host can reach {where}")
    if here is None:
        first = next(iter(reaching))
        return Decision(Fetch.NODE0, f"this machine cannot reach {where}, but {first} can", first)
    slowest = max(reaching.values(), default=0.0)
    if len(reaching) < len(hosts) or here <= LONG or here < MUCH * slowest:
        return Decision(Fetch.CONTROLLER, f"this machine reaches {where}, about {here:.0f} s")
    return Decision(Fetch.EACH, f"about {slowest:.0f} s for the slowest host, {here:.0f} s here")
