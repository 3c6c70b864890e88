"""Tools that a lab runs, with their own words as the error."""

from __future__ import annotations

import subprocess

from ipexctl.lab.cluster import config_text

ENV = {"PATH": config_text.PATH, "LANG": "C.UTF-8"}


def run_quietly(argv: list[str], given: str = "") -> None:
    done = subprocess.run(
        argv, input=given, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise OSError(f"{argv[0]}: {done.stdout.strip() or f'exit {done.returncode}'}")
