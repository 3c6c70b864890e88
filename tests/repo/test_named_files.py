"""Every file that a page, a docstring or a comment names is there."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOPS = ("", "ipexctl/", "tests/", "docs/")
_PATH = re.compile(r"(?<![\w./~$*<>:@{}-])((?:[\w-]+/)*\w+\.(?:py|toml))(?![\w./{*<-])")
# Files of others, of the user, and of hosts, which are named like ours.
OTHERS = frozenset(
    """
    train.py setup.py model.py module.py sitecustomize.py usercustomize.py old.py old_train.py
    """.split()  # noqa: SIM905 - a list of words stays readable
)


@cache
def tracked() -> tuple[frozenset[str], frozenset[str]]:
    """Paths, and the names of files."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    files = frozenset(path for path in listed.stdout.splitlines() if (ROOT / path).exists())
    return files, frozenset(Path(path).name for path in files)


def rooms() -> frozenset[str]:
    """First folders by which a path is taken for one of ours."""
    ours = {p.name for p in (ROOT / "ipexctl").iterdir() if p.is_dir()}
    return frozenset(ours | {"ipexctl", "tests", "tools", "benchmarks", "core", "verbs", "ui"})


def missing(text: str) -> Iterator[str]:
    paths, names = tracked()
    for path in _PATH.findall(text):
        if "/" not in path:
            if path.endswith(".py") and path not in names | OTHERS and "NAME" not in path:
                yield path
        elif (
            path.partition("/")[0] in rooms()
            and not any(f"{top}{path}" in paths for top in TOPS)
            and "NAME" not in path
        ):
            yield path


def _prose(path: Path) -> str:
    """Docstrings and comments of a Python file."""
    said = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        alone = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL)
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and alone):
            said.append(token.string)
        before = token.type
    return "\n".join(said)


def test_files_named_in_pages_are_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs/decisions").glob("*.md")]
    assert pages
    found = {f"{p.name}: {path}" for p in pages for path in missing(p.read_text("utf-8"))}
    assert sorted(found) == []


def test_files_named_in_docstrings_and_comments_are_there() -> None:
    sources = [*(ROOT / "ipexctl").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    found = {f"{p.relative_to(ROOT)}: {path}" for p in sources for path in missing(_prose(p))}
    assert sorted(found) == []


def test_a_file_that_is_gone_is_found() -> None:
    assert list(
        missing("core/model.py, `ipexctl/facts/facts.py`, doctor/checks/cpu.py, gone.py")
    ) == [
        "core/model.py",
        "gone.py",
    ]
