"""What of remote/ goes to a host: only the modules that an operation needs, each once."""

from __future__ import annotations

import json
import re
import zlib
from functools import cache
from importlib.resources import files

_USES = re.compile(r'\bmodule\("(\w+)"\)')
_NEEDS = re.compile(r"^NEEDS = \(([^)]*)\)", re.MULTILINE)  # texts that become files on the host


@cache
def texts() -> dict[str, str]:
    """The source of every module of remote/."""
    return {
        p.name[:-3]: p.read_text("utf-8")
        for p in files("ipexctl").joinpath("remote").iterdir()
        if p.name.endswith(".py")
    }


@cache
def needed(op: str) -> frozenset[str]:
    """The modules that an operation like `probe.facts` can come to use."""
    found: set[str] = set()
    todo = {op.partition(".")[0]} & texts().keys()
    while todo:
        name = todo.pop()
        found.add(name)
        text = texts()[name]
        named = _USES.findall(text) + re.findall(r"\w+", "".join(_NEEDS.findall(text)))
        todo |= set(named) - found
    return frozenset(found)


@cache
def packed(names: frozenset[str]) -> bytes:
    """As remote/main.py and the boot line read them."""
    chosen = {name: texts()[name] for name in sorted(names)}
    return zlib.compress(json.dumps(chosen).encode("ascii"), 9)


def boot_payload(marker: str, names: frozenset[str]) -> bytes:
    """The boot line and the sources it asks for: main.py and `names`."""
    body = packed(names | {"main"})
    line = (
        f"s=json.loads(zlib.decompress(sys.stdin.buffer.read({len(body)}))"
        f".decode());n={{'__name__':'ipexctl_remote_main'}};"
        f"exec(compile(s['main'],'<ipexctl remote/main.py>','exec'),n);"
        f"n['start'](s,b'\\n{marker}-py\\n')\n"
    )
    return line.encode("ascii") + body
