#!/usr/bin/env python3
"""Write the tables in pages, and the schemas, that come from the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import module_page  # noqa: E402  beside this file
import play_docs  # noqa: E402
import settings_schema  # noqa: E402
import table_pages  # noqa: E402

from ipexctl.play.steps import all_steps  # noqa: E402

if __name__ == "__main__":
    tables = {
        "docs/run-environment.md": table_pages.with_variables,
        "docs/hangs.md": table_pages.with_hang_causes,
        "ARCHITECTURE.md": module_page.with_rooms,
    }
    for page, with_table in tables.items():
        file = ROOT / page
        file.write_text(with_table(file.read_text("utf-8")), "utf-8")
    schemas = {"play": play_docs.play_schema(all_steps())}
    schemas["settings"] = settings_schema.settings_schema()
    for name, schema in schemas.items():
        file = ROOT / "ipexctl" / "schema" / f"{name}.json"
        file.write_text(json.dumps(schema, indent=1) + "\n", "utf-8")
