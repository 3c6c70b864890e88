#!/usr/bin/env python3
"""Writes docs/failures.md, errors.md, pasted-lines.md; tables of checks, migrate, run, stacks."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import error_catalogue  # noqa: E402  beside this file

from ipexctl.core.checks import catalogue, docs_page  # noqa: E402
from ipexctl.core.known_failures import causes  # noqa: E402
from ipexctl.core.migrate import rules  # noqa: E402
from ipexctl.core.pasted import lines_page  # noqa: E402
from ipexctl.core.plan import rank_contract  # noqa: E402
from ipexctl.local.shipped_tables import (  # noqa: E402
    accelerate_keys,
    failures,
    launchers,
    migration_rules,
    table,
)
from ipexctl.ui import stacks  # noqa: E402

if __name__ == "__main__":
    file = ROOT / "docs" / "checks.md"
    file.write_text(docs_page.updated(file.read_text("utf-8"), catalogue()), "utf-8")
    (ROOT / "docs" / "failures.md").write_text(causes.page(failures()), "utf-8")
    lines = lines_page.page(launchers(), accelerate_keys())
    (ROOT / "docs" / "pasted-lines.md").write_text(lines, "utf-8")
    found = error_catalogue.catalogue(ROOT / "ipexctl")
    (ROOT / "docs" / "errors.md").write_text(error_catalogue.page(*found), "utf-8")
    file = ROOT / "docs" / "migrate.md"
    file.write_text(rules.updated(file.read_text("utf-8"), migration_rules().all), "utf-8")
    file = ROOT / "docs" / "run.md"
    file.write_text(rank_contract.updated(file.read_text("utf-8")), "utf-8")
    file = ROOT / "docs" / "stacks.md"
    file.write_text(stacks.updated(file.read_text("utf-8"), table()), "utf-8")
