"""Read a hostfile, with errors for one that is missing or in the wrong place."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ipexctl.base.located_errors import nearest_files
from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, reason_of
from ipexctl.inventory.hostfile_text import MAX_TEXT, parse_hostfile
from ipexctl.inventory.text_encoding import decode_text

USUAL = ("hostfile", "hosts", "hosts.txt", "hosts.yaml", "hosts.yml", "hosts.ini", "machinefile")
NEW = "# ipexctl init HOST HOST ... writes a hostfile here"
_LIKELY = 20  # files to read
_SUFFIXES = (".txt", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".hosts")


def read_hostfile(path: Path) -> str:
    """Read at most MAX_TEXT bytes, so that a device or a dataset does not take forever."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT + 1)
    except FileNotFoundError:
        raise _missing_file_error(path) from None
    except IsADirectoryError:
        raise _is_folder_error(path) from None
    except (OSError, ValueError) as e:
        why = reason_of(e)
        raise InputError(
            f"cannot read the hostfile {path}", why=why, slug="hostfile-unreadable"
        ) from None
    if len(data) > MAX_TEXT:
        raise InputError(
            f"{path} is larger than {MAX_TEXT >> 20} MiB, too long for a hostfile",
            slug="hostfile-too-large",
        )
    return decode_text(data, str(path))


def hostfile_here() -> str:
    """Return a hostfile of a usual name in the current folder, else the only file of hosts with a
    name that suggests it; "" if there is none."""
    words = ("host", "node", "machine", "cluster", "inventory")
    names = [name for name in _folder_names(Path()) if any(word in name.lower() for word in words)]
    hostfiles = [name for name in names[:_LIKELY] if not name.endswith(".py") and is_hostfile(name)]
    usual = next((name for name in USUAL if is_hostfile(name)), "")
    return usual or (hostfiles[0] if len(hostfiles) == 1 else "")


def is_hostfile(word: str) -> bool:
    """Decide whether this word names a file that is a valid hostfile."""
    if not word or not os.path.isfile(word):
        return False
    try:
        parse_hostfile(read_hostfile(Path(word)), word)
    except InputError:
        return False
    return True


def given_as_host(word: str) -> bool:
    """Decide whether a word in the place of a host name is a hostfile, even one with mistakes."""
    if not os.path.isfile(word):
        return False
    named_so = word in USUAL or word.endswith(_SUFFIXES) or "/" in word
    return named_so or is_hostfile(word)


def _missing_file_error(path: Path) -> InputError:
    folder = Path.cwd() / path.parent
    if not folder.is_dir():
        message = f"cannot read the hostfile {path}: there is no folder {folder}"
        return InputError(message, hint=NEW, slug="hostfile-missing")
    names = [name for name in _folder_names(folder) if (folder / name).is_file()]
    similar, usual = nearest_files(path.name, names), [name for name in USUAL if name in names]
    why = f"similar names there: {', '.join(similar)}" if similar else ""
    why = why or f"hostfiles there: {', '.join(usual)}" * bool(usual)
    near = next((str(path.parent / name) for name in [*similar, *usual]), "")
    return InputError(
        f"cannot read the hostfile {path}: there is no such file in {folder}",
        why=why,
        hint=NEW,
        slug="hostfile-missing",
    ).with_meant(str(path), near)


def _is_folder_error(path: Path) -> InputError:
    hostfiles = [str(path / name) for name in USUAL if is_hostfile(str(path / name))]
    return InputError(
        f"cannot read the hostfile {path}: it is a folder",
        hint=f"-f {quote((hostfiles[0],))}" if hostfiles else NEW,
        slug="hostfile-is-folder",
    )


def _folder_names(folder: Path) -> list[str]:
    with suppress(OSError):
        return [path.name for path in folder.iterdir()]
    return []
