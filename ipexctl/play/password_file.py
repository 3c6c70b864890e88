"""The sudo password, from a file that only its owner can read, or from a pipe."""

from __future__ import annotations

import os
from pathlib import Path

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, reason_of

_MOST = 4096


def read_password(word: str) -> str:
    """Without its newline. Raises InputError, which never has any of the content."""
    try:
        with Path(word).expanduser().open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = b"" if mode & 0o077 else file.read(_MOST + 1)
        if mode & 0o077:
            what = f"--sudo-password-file {word}: other users may read or write this file"
            raise InputError(what, hint=f"chmod 600 {quote((word,))}")
        password = data.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise InputError(f"--sudo-password-file {word}: the password is not UTF-8 text") from None
    except (OSError, RuntimeError) as e:
        raise InputError(f"--sudo-password-file: cannot read {word}", why=reason_of(e)) from None
    if not password or len(data) > _MOST or set(password) & set("\0\n"):
        why = "the file must contain only the password, on one line"
        raise InputError(f"--sudo-password-file {word}: expected a password", why=why)
    return password
