"""Imports of a script that will fail on the hosts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from ipexctl.inventory.hostfile_text import fold
from ipexctl.migrate.code.rules import Rule, Rules
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.script.context import HostEnvironment, Note, ProjectFiles
from ipexctl.user_code.source import Import, Source

# distributions that are not called as what they bring is
DISTRIBUTIONS = {
    "cv2": "opencv-python-headless", "PIL": "pillow", "sklearn": "scikit-learn",
    "skimage": "scikit-image", "yaml": "pyyaml", "bs4": "beautifulsoup4", "dotenv": "python-dotenv",
    "dateutil": "python-dateutil", "attr": "attrs", "Bio": "biopython", "fitz": "pymupdf",
    "docx": "python-docx", "git": "gitpython", "jwt": "pyjwt", "serial": "pyserial",
    "usb": "pyusb", "zmq": "pyzmq", "OpenSSL": "pyopenssl", "Crypto": "pycryptodome",
    "faiss": "faiss-cpu", "Levenshtein": "levenshtein", "umap": "umap-learn",
    "pkg_resources": "setuptools<81", "lightning_fabric": "pytorch-lightning",
    "tensorflow": "tensorflow-cpu", "hydra": "hydra-core", "ruamel": "ruamel.yaml",
    "neural_compressor": "neural-compressor-pt",
}  # fmt: skip


@dataclass(frozen=True)
class Imports:
    """`sources`: the script, then the project's own modules that it imports."""

    sources: Sequence[Source]
    hosts: Sequence[HostEnvironment]
    files: ProjectFiles
    rules: Rules

    def notes(self) -> Iterator[Note]:
        told = set[str]()
        for source, one in self._certain():
            beside = not one.level and self.files.has_module(self.files.beside, one.top)
            why = self.files.kept_here.get((source.path, one.line), "")
            if why and (one.level or beside or self._is_lacking(one.top)):
                if why not in told:
                    told.update((why, one.top))
                    name = "." * one.level + one.module
                    text = f"module {name} is not sent to the hosts: {why}"
                    yield Note(f"{source.path}:{one.line}", text)
            elif not one.level and one.top not in told and not beside:
                told.add(one.top)
                place, rule = f"{source.path}:{one.line}", self.rules.find("import", one.top)
                if rule and rule.distributions:
                    yield from self._discontinued(place, one.top, rule)
                else:
                    yield from self._missing(place, one.top)

    def _discontinued(self, place: str, name: str, rule: Rule) -> Iterator[Note]:
        if name not in self.files.parts and (lack := self._lack(rule.distributions)):
            text = f"{name} was discontinued and is not installed on {lack}"
            yield Note(place, text, f"{rule.use}, or install it with `{rule.install}`")

    def _lack(self, names: Iterable[str]) -> str:
        """The hosts whose environment is known and has none of these distributions."""
        return fold(
            [h.host for h in self.hosts if h.modules is not None and not {*names} & {*h.packages}]
        )

    def _is_lacking(self, name: str) -> bool:
        """May a host lack the module?"""
        return any(host.modules is None or name not in host.modules for host in self.hosts)

    def _missing(self, place: str, name: str) -> Iterator[Note]:
        files, script = self.files, self.sources[0].path
        lack = [h.host for h in self.hosts if h.modules is not None and name not in h.modules]
        if self._is_lacking(name) and files.holds(f"{name}.py"):
            text = f"module {name} is not in the script's folder, where Python looks for it"
            script = posixpath.relpath(script, files.cwd or ".")
            module = script.removesuffix(".py").replace("/", ".")
            yield Note(place, text, f"`ipexctl run -m {module}`, or --env PYTHONPATH=.")
        elif lack and name not in files.parts:
            known = DISTRIBUTIONS.get(name)
            text = f"module {name} is not installed on {fold(lack)}"
            install = f"`ipexctl install -r {files.requirements}`"
            yield Note(place, text, f"{install} after adding {known or 'its package'} to that file")

    def _certain(self) -> Iterator[tuple[Source, Import]]:
        """Those that fail the script if they fail, and are looked for in the environment."""
        if any(s.changes_path for s in self.sources) or "PYTHONPATH" in self.files.variables:
            return
        for source in self.sources:
            yield from ((source, one) for one in source.imports if one.sure)
