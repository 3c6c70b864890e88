"""Which modules a checkpoint of torch.save needs when it is loaded, read without loading it."""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path

_MOST = 16 << 20  # bytes of the pickle, which holds names and shapes; tensors are beside it


def modules_of(path: Path) -> tuple[str, ...]:
    """In order. Nothing for files of another kind. Raises OSError."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            data = archive.open(names[0]).read(_MOST) if names else b""
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, RuntimeError):
        return ()
    found, texts = dict[str, None](), list[str]()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL":
                found[str(argument).partition(" ")[0]] = None
            elif opcode.name == "STACK_GLOBAL":
                found.update(dict.fromkeys(texts[-2:-1]))
            elif isinstance(argument, str):
                texts.append(argument)
    except (ValueError, IndexError, UnicodeDecodeError):
        pass  # cut, or no pickle: what was read counts
    return tuple(found)
