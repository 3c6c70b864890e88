"""What `support` shows."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import human
from ipexctl.support.support import Bundle
from ipexctl.terminal.console import print_text, stdout_console


def show(bundle: Bundle) -> None:
    console = stdout_console()
    print_text(console, f"{bundle.path.name}, {human(bundle.bytes)}:")
    width = max(len(name) for name, _ in bundle.files)
    for name, about in bundle.files:
        print_text(console, f"  {name:{width}}  {about}")
    print_text(console, f"look through it before you send it: tar -xzOf {bundle.path.name} | less")


def document(bundle: Bundle) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "path": str(bundle.path),
        "bytes": bundle.bytes,
        "files": [name for name, _ in bundle.files],
        "exit_code": bundle.exit_code,
    }
