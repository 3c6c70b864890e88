"""Bytecode of ipexctl and of all it imports, as pip leaves it for the peers.

An editable install has none of ipexctl's, uv makes none, and where PYTHONDONTWRITEBYTECODE is set a
package without any is compiled at each start: 0.15 s here for typer alone.
"""

from __future__ import annotations

import compileall
import sysconfig
from pathlib import Path


def make() -> None:
    for folder in (Path(__file__).parents[1] / "ipexctl", Path(sysconfig.get_path("purelib"))):
        compileall.compile_dir(folder, quiet=2)
