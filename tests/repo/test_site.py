"""`make docs`: the site builds without a warning, so every link is right; it needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl import errors
from ipexctl.local.shipped_tables import migration_rules, stack_rows

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import module_page  # noqa: E402  beside build_site.py
import table_pages  # noqa: E402

FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*", re.I)


KINDS = [
    name
    for name, value in vars(errors).items()
    if isinstance(value, type)
    and issubclass(value, errors.IpexctlError)
    and value is not errors.MissingPackages  # `run` asks a question instead of showing it
]
# pages that are made from the code: what is in each
MADE = {
    "errors": [
        *(f"\n## {kind}\n" for kind in KINDS),
        "\n## Unreachable\n\nExit code 4: ",
        "\n## InputError\n\nExit code 2: ",
        "| `HOST: cannot log in as USER` | `WHY` |",
        "| `SCRIPT is a hostfile, not a script` | `a hostfile is given with -f` | `COMMAND` |",
        "| `HOST: no environment is installed in ROOT` | ",
        "| `HOST: its host key is not trusted yet` | `KEY_TYPE FINGERPRINT` | `ipexctl trust ",
        "| `HOST: no answer for TIMEOUT s` |  | `ssh HOST uptime` |",
    ],
    "migrate-rules": [f"| {rule.id} |" for rule in migration_rules().all],
    "stack-rows": [f"| `{row.name}`" for row in stack_rows()],
    "modules": [
        "\n## ipexctl/run/plan/\n",
        *(f"\n- `{p.name}`: " for p in (ROOT / "ipexctl").rglob("[!_]*.py")),
    ],
}


def copied(folder: Path) -> Path:
    """A copy of what the site is made of."""
    copy = folder / "ipexctl"
    unwanted = (".git", ".venv", "build", "dist", "tests", "__pycache__", ".*cache")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*unwanted), symlinks=True)
    return copy


def build(copy: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(copy / "tools/build_site.py")]
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = copied(tmp_path_factory.mktemp("site"))
    done = build(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "build/site"


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    found = {page.name: FETCHED.findall(page.read_text()) for page in pages}
    assert {name: links for name, links in found.items() if links} == {}


@pytest.mark.parametrize("page", MADE)
def test_a_page_that_is_made_from_the_code_has_every_entry(site: Path, page: str) -> None:
    text = (site.parent / f"site-source/docs/{page}.md").read_text("utf-8")
    assert [entry for entry in MADE[page] if entry not in text] == []


def test_the_variables_on_the_page_about_runs_are_current() -> None:
    page = (ROOT / "docs/run-environment.md").read_text("utf-8")
    assert table_pages.with_variables(page) == page, "make docs"


def test_the_rooms_in_the_architecture_are_current() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert module_page.with_rooms(page) == page, "make docs"


def test_the_causes_on_the_page_about_hangs_are_current() -> None:
    page = (ROOT / "docs/hangs.md").read_text("utf-8")
    assert table_pages.with_hang_causes(page) == page, "make docs"


def test_a_page_in_the_docs_is_in_the_contents(site: Path) -> None:
    index = (site / "index.html").read_text()
    pages = [p.relative_to(ROOT).with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")]
    assert [str(page) for page in pages if f'href="{page}"' not in index] == []


def test_options_keep_their_two_dashes(site: Path) -> None:
    """Typographic quotes and dashes would make a command that cannot be pasted."""
    changed = re.compile("[\u2013\u2014][a-z]|[\u201c\u201d\u2018\u2019]")
    pages = [page for page in site.rglob("*.html") if page.parent.name == "docs"]
    found = {page.name: changed.findall(page.read_text()) for page in pages}
    assert {name: marks for name, marks in found.items() if marks} == {}
    assert "--level" in (site / "docs/troubleshooting.html").read_text()


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """Of a site of few words: the whole one takes ten times as long."""
    copy = copied(tmp_path)
    for page in copy.rglob("*.md"):
        page.write_text("# Title\n")
    links = "[there](run.md#title), [gone](run.md#no-such-heading)"
    (copy / "docs/faq.md").write_text(f"# Title\n\n{links}\n")
    (copy / "docs/run-results.md").write_text("# Title\n\n## Exit codes\n")  # errors link to these
    done = build(copy)
    (warning,) = (line for line in done.stderr.splitlines() if "WARNING" in line)
    assert done.returncode != 0 and "no-such-heading" in warning
