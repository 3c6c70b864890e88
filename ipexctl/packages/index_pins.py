"""Which index may serve which package: Intel's names never come from one that anybody can fill.

`oneccl_bind_pt` and its like are unclaimed on the default index. Whoever took the name there could
run code on every host, so these packages are looked for in the user's own folders of wheels and on
Intel's index, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ipexctl.install.stack.lock_file import Package
from ipexctl.install.stack.version_table import IPEX, RESERVED, Row
from ipexctl.packages.indexes import Indexes
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Pin:
    """The one place that a package may come from. `flat`: a page or folder of wheels."""

    url: str
    flat: bool = False


Pins = Mapping[str, Pin]


def of_torch(row: Row) -> Pin:
    return Pin(row.torch_index, "torch_index" in row.flat)


def places(row: Row, name: str, indexes: Indexes) -> Iterator[Pin | None]:
    """Where to look for one of Intel's packages, in this order. None: the default index."""
    yield from (Pin(_url(place), flat=True) for place in indexes.find_links if _exists(place))
    if row.links:
        yield Pin(row.links, "links" in row.flat)
    if name == IPEX and row.public:
        yield None


def unpinned_reserved(packages: Iterable[Package], row: Row, pins: Pins) -> list[str]:
    """Intel's names among the packages that no pin has brought."""
    allowed = {*pins, *((IPEX,) if row.public else ())}
    return sorted({p.name for p in packages} & RESERVED - allowed)


def _url(place: str) -> str:
    return place if "://" in place else Path(place).absolute().as_uri()


def _exists(place: str) -> bool:
    return "://" in place or Path(place).is_dir()


def project(wanted: Iterable[str], pins: Pins, constraints: Iterable[str] = ()) -> str:
    """Only a project file can say that one package comes from one index and nowhere else."""
    lines = ["[project]", 'name = "ipexctl-environment"', 'version = "0"']
    lines += [f"dependencies = {_list(wanted)}"]
    lines += ["[tool.uv]", f"constraint-dependencies = {_list(constraints)}"]
    lines += ["[tool.uv.workspace]"]  # its own: uv looks for none in the folders above
    lines += ["[tool.uv.sources]"]
    places = list(dict.fromkeys(pins.values()))
    lines += [f'{name} = {{ index = "pin{places.index(pin)}" }}' for name, pin in pins.items()]
    for i, pin in enumerate(places):
        lines += ["[[tool.uv.index]]", f'name = "pin{i}"', f'url = "{pin.url}"']
        lines += ["explicit = true", *(['format = "flat"'] if pin.flat else [])]
    return "\n".join(lines) + "\n"


def _list(texts: Iterable[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)
