"""Run by the boot line on a host: makes the modules that came over stdin importable.

No module of the host can take their place: this finder comes first, and `ipexctl` is a package
without a folder here, as is PySyncObj. Python's import system has the locks, so any thread may
import.
"""

import marshal
import sys

ModuleSpec = type(sys.__spec__)  # importing importlib.machinery takes a millisecond


class SourceImporter:
    """Finder and loader of `sources`, which may grow: {full name of a module: its text, or its code
    as this Python marshals it}."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("ipexctl", "pysyncobj"):
            return None
        if name in self.sources:
            return ModuleSpec(name, self, origin=file_name(name))  # type: ignore[arg-type]
        if any(source.startswith(name + ".") for source in list(self.sources)):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec):
        return None  # let Python create the module

    def exec_module(self, module):
        name = module.__name__
        if name in self.sources:  # a package has no text
            exec(self.get_code(name), module.__dict__)

    def get_code(self, name):
        text = self.sources[name]
        if isinstance(text, bytes):
            return marshal.loads(text)
        return compile(text, file_name(name), "exec")

    def get_source(self, name):
        """Return a module's text, so that tracebacks show its lines."""
        text = self.sources.get(name)
        return text if isinstance(text, str) else None


def file_name(name):
    return name.replace(".", "/") + ".py"


def start(sources, marker):
    """Serve requests until stdin ends."""
    sys.meta_path.insert(0, SourceImporter(sources))
    from ipexctl.remote import main

    main.start_agent(sources, marker)
