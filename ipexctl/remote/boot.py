"""Run by the boot line on a host: makes the modules that came over stdin importable.

No module of the host can take their place: this finder comes first, and `ipexctl` is a package
without a folder here, as is PySyncObj. Python's import system has the locks, so any thread may
import.
"""

import marshal
import sys

MYPY = False  # importing these would cost a host more than the rest of this module
if MYPY:
    import types
    from importlib import machinery

    Sources = dict[str, str | bytes]

ModuleSpec = type(sys.__spec__)  # importing importlib.machinery takes a millisecond


class SourceImporter:
    """Finder and loader of `sources`, which may grow: {full name of a module: its text, or its code
    as this Python marshals it}."""

    def __init__(self, sources: "Sources") -> None:
        self.sources = sources

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> "machinery.ModuleSpec | None":
        if name.partition(".")[0] not in ("ipexctl", "pysyncobj"):
            return None
        if name in self.sources:
            return ModuleSpec(name, self, origin=file_name(name))  # type: ignore[arg-type]
        if any(source.startswith(name + ".") for source in list(self.sources)):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: "machinery.ModuleSpec") -> None:
        return None  # let Python create the module

    def exec_module(self, module: "types.ModuleType") -> None:
        name = module.__name__
        if name in self.sources:  # a package has no text
            exec(self.get_code(name), module.__dict__)

    def get_code(self, name: str) -> "types.CodeType":
        text = self.sources[name]
        if isinstance(text, bytes):
            code: "types.CodeType" = marshal.loads(text)
            return code
        return compile(text, file_name(name), "exec")

    def get_source(self, name: str) -> "str | None":
        """Return a module's text, so that tracebacks show its lines."""
        text = self.sources.get(name)
        return text if isinstance(text, str) else None


def file_name(name: str) -> str:
    return name.replace(".", "/") + ".py"


def start(sources: "Sources", marker: bytes) -> None:
    """Serve requests until stdin ends."""
    sys.meta_path.insert(0, SourceImporter(sources))
    from ipexctl.remote import main

    main.start_agent(sources, marker)
