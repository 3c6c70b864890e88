#!/usr/bin/env python3
"""The documentation as a static site in build/site; a broken link or anchor ends it with an error.

The Markdown files stay as they are on GitHub: they are copied with their folders, so every relative
link means the same here and there. Pages generated from the code (checks, commands, errors,
known failures, steps of plays, version table, rules of migrate,
messages of a run, modules) are on the site alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import checks_tables  # noqa: E402  beside this file
import cli_reference  # noqa: E402
import error_catalogue  # noqa: E402
import message_page  # noqa: E402
import module_page  # noqa: E402
import play_docs  # noqa: E402
import table_pages  # noqa: E402

from ipexctl.doctor.checks import all_checks  # noqa: E402
from ipexctl.explain.known_failures import known_failures  # noqa: E402
from ipexctl.local.shipped_tables import migration_rules, stack_rows  # noqa: E402
from ipexctl.play.steps import all_steps  # noqa: E402

SOURCE, SITE = ROOT / "build/site-source", ROOT / "build/site"
FOLDERS = ("docs", "examples", "playbooks")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
BESIDE = ("LICENSE", "Makefile", "ipexctl", "benchmarks")
CONTENTS = {  # caption -> pages, in order
    "Start": (
        "README", "docs/README", "docs/comparison", "docs/lab", "docs/troubleshooting", "docs/faq",
    ),
    "Guides": (
        "docs/hosts", "docs/ssh", "docs/doctor", "docs/bench", "docs/install", "docs/packages",
        "docs/offline", "docs/use-env", "docs/environments", "docs/run",
        "docs/run-placement", "docs/run-environment", "docs/run-results", "docs/data", "docs/hangs",
        "docs/speed", "docs/report", "docs/compare-runs", "docs/tune", "docs/checkpoints",
        "docs/restarts", "docs/queue",
        "docs/frameworks",
        "docs/plays", "docs/plays-and-ansible", "playbooks/README", "docs/python", "docs/notebook",
        "docs/migrate", "docs/guides/*", "docs/work", "examples/README", "docs/files",
        "docs/support",
    ),
    "Reference": (
        "docs/cli", "docs/play-steps", "docs/checks", "docs/failures",
        "docs/errors", "docs/stacks", "docs/stack-rows", "docs/migrate-rules", "docs/faults",
        "docs/benchmarks", "CHANGELOG",
    ),
    "How it works": (
        "ARCHITECTURE", "docs/modules", "docs/words", "docs/messages", "docs/security",
        "CONTRIBUTING", "docs/decisions/*",
    ),
}  # fmt: skip
CONF = """\
project = "ipexctl"
extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "index"
html_theme = "furo"
html_title = "ipexctl"
html_copy_source = False
suppress_warnings = ["misc.highlighting_failure"]


def setup(app):
    from pygments.lexers.special import TextLexer

    app.add_lexer("hostfile", TextLexer)


exclude_patterns = ["benchmarks/**.md", "ipexctl/**.md"]
highlight_language = "none"
smartquotes = False  # it would turn --level into a dash and "level"
"""


def generated_pages() -> dict[str, str]:
    return {
        "checks": checks_tables.page(all_checks()),
        "cli": cli_reference.page(),
        "errors": error_catalogue.page(*error_catalogue.catalogue(ROOT / "ipexctl")),
        "migrate-rules": table_pages.rules(migration_rules().all),
        "stack-rows": table_pages.stack_rows(stack_rows()),
        "play-steps": play_docs.steps_page(all_steps()),
        "failures": table_pages.failures(known_failures()),
        "messages": message_page.page(),
        "modules": module_page.page(),
    }


def stage() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for name in (*FOLDERS, *BESIDE):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, SOURCE / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, SOURCE / name)
    for name in PAGES:
        shutil.copy(ROOT / name, SOURCE / name)
    for name, text in generated_pages().items():
        (SOURCE / f"docs/{name}.md").write_text(text, "utf-8")
    (SOURCE / "conf.py").write_text(CONF)
    trees = []
    for caption, pages in CONTENTS.items():
        there = [page for page in pages if any(SOURCE.glob(f"{page}.md"))]
        head = f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n:glob:\n\n"
        trees.append(head + "\n".join(there) + "\n```\n")
    (SOURCE / "index.md").write_text("# Contents\n\n" + "\n".join(trees))


def main() -> int:
    stage()
    words = ["-q", "-W", "--keep-going", "-b", "html", str(SOURCE), str(SITE)]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words])
    if done.returncode == 0:
        print(f"{SITE.relative_to(ROOT)}/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
