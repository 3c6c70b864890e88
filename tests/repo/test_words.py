"""What users and developers read is native, technical English, not translated word by word.

The texts are those in the code (messages, titles, fixes, help), the tables beside it, the README
and the pages of docs/; and the docstrings and comments of the code. Phrases are banned, not
innocent words. A docstring is a sentence with a subject or an imperative, not a fragment.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ipexctl"

# pattern -> what to write
BANNED = {
    r"\b(?<!owned by )(?:nobody|somebody)\b": "name the actor: ssh, pip, the agent, a user",
    r"\b(?:tells?|told|telling) of\b": "report",
    r"\banew\b": "again; re-",
    r"\bthe like\b": "similar ...",
    r"\beach other's\b": "... of the other ...",
    r"\bby (?:itself|themselves)\b": "automatically, on its own, separately",
    r"\bso many (?!that)": "this many, number of",
    r"(?<!there )\b(?:is|are) no (?!(?:longer|such|more|less|later|need)\b)[a-z{]+": "is not a",
    r"\bwhat is there\b": "the existing ...",
    r"\bas it is here\b": "its local value",
    r"\b(?:is|are|stays?) (?:not )?whole\b": "intact, complete",
    r"\b(?:a|one|each|every|two) training\b(?! (?:run|job|script|step|cluster))": "a run",
    r"\b(?:[Tt]rainings|killed training)\b": "runs",
    r"\bmend(?:s|ing)?\b": "fix, repair",
    r"\bin spite of\b": "even if",
    r"\bstand(?:s|ing)? still\b": "is stopped, stops responding",
    r"\bwhom\b": "which hosts",
    r"\bcan train (?:·|together)|\bhosts? can train\b": "ready",
    r"\bslows? you\b": "warning",
    r"\bwhat it says (?:of|is)\b": "the agent sent an invalid reply",
    r"\b(?:is|are) ours\b": "may use",
}
_BANNED = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in BANNED.items()]
# first words of docstrings that lack a subject or an imperative: "Of one host", "None if unknown"
_FRAGMENT = re.compile(
    r"(?:Of|By|As|For|With|Since|None|When|Where|Without|From|To|Whom|Whose)\b(?!-)"
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in texts_of(path.read_text("utf-8"), with_docs="cli" in path.parts):
            yield f"{path.relative_to(ROOT)}:{line}", text
    tables = sorted(PACKAGE.rglob("*.toml"))
    pages = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in p.parts]
    for path in (*tables, *pages, ROOT / "README.md"):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if path.suffix != ".toml" or not line.startswith("#"):
                yield f"{path.relative_to(ROOT)}:{number}", line


def texts_of(source: str, *, with_docs: bool) -> Iterator[tuple[int, str]]:
    """String literals; docstrings only of functions, which are the help of commands."""
    tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef) if with_docs else (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.body and isinstance(node.body[0], ast.Expr)
    }
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for text in joined for part in text.values}
    for text in joined:
        words = (p.value if isinstance(p, ast.Constant) else "{}" for p in text.values)
        yield text.lineno, "".join(map(str, words))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docs | parts:
            yield node.lineno, str(node.value)


def notes_of(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield docstrings (True) and comments (False) with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text, True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


@cache
def _notes() -> list[tuple[str, str, bool]]:
    return [
        (f"{path.relative_to(ROOT)}:{line}", text, is_docstring)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text, is_docstring in notes_of(path.read_text("utf-8"))
    ]


def without_code(text: str) -> str:
    """Join the lines of a text and drop names in backticks, which may contain any word."""
    return re.sub(r"`[^`]*`", "``", " ".join(text.split()))


def banned(text: str) -> list[str]:
    return [f"{m[0]!r}: {better}" for pattern, better in _BANNED for m in pattern.finditer(text)]


def test_no_text_for_users_has_a_banned_phrase() -> None:
    found = [f"{place}: {phrase}" for place, text in _texts() for phrase in banned(text)]
    assert sorted(set(found)) == []


def test_no_docstring_or_comment_has_a_banned_phrase() -> None:
    notes = ((place, banned(without_code(text))) for place, text, _ in _notes())
    assert [f"{place}: {phrase}" for place, phrases in notes for phrase in phrases] == []


def test_no_docstring_is_a_fragment() -> None:
    docstrings = ((place, text) for place, text, is_docstring in _notes() if is_docstring)
    assert [f"{place}: {text[:80]}" for place, text in docstrings if _FRAGMENT.match(text)] == []


@pytest.mark.parametrize(
    ("text", "is_fragment"),
    [
        ("Of one host.", True),
        ("None: it is not known.", True),
        ("By host name. With --check nothing is changed.", True),
        ("As `do` does.", True),
        ("Return the outcome of each host by its name.", False),
        ("Forget a failed host.", False),
        ("What a check saw.", False),
    ],
)
def test_fragments_are_found_and_sentences_are_not(text: str, is_fragment: bool) -> None:
    assert bool(_FRAGMENT.match(text)) is is_fragment


def test_docstrings_and_comments_are_found_with_their_lines() -> None:
    source = '"""A b.\n\nc"""\nclass C:\n    """D."""\n\n    x = "# no"  # e `nobody` f\n'
    comment = "# e `nobody` f"
    assert [*notes_of(source)] == [(1, "A b.\n\nc", True), (5, "D.", True), (7, comment, False)]
    assert banned(without_code(comment)) == []
    assert banned(without_code("it tells\n    of nobody")) != []


@pytest.mark.parametrize(
    ("text", "is_banned"),
    [
        ("nobody is there to be asked", True),
        ("A silent rank is told of after 10 s.", True),
        ("the wheels are unpacked anew", True),
        ("'x' is no rank", True),
        ("'{}' is no {}", True),
        ("datasets that are not removed yet are whole", True),
        ("would break or slow a training", True),
        ("Killed trainings leave files", True),
        ("everything pauses; hosts that stand still are reported", True),
        ("3 of 3 hosts can train · 1 thing slows you", True),
        ("what it says of itself is not readable", True),
        ("only a part of the CPUs is ours", True),
        ("wait for so many seconds", True),
        ("there is no script train.py", False),
        ("the file is no longer there", False),
        ("ignoring the git repository: owned by nobody", False),
        ("Check every host for problems that break or slow down training.", False),
        ("the whole file, a training script, and a training cluster", False),
        ("so many that the kernel runs out of them", False),
    ],
)
def test_banned_phrases_are_found_and_innocent_words_are_not(text: str, is_banned: bool) -> None:
    assert bool(banned(text)) is is_banned


def test_only_the_docstrings_of_functions_in_cli_are_texts() -> None:
    source = '"""a b"""\ndef f():\n    """c d"""\n    g("e f", h=f"i {j} k")\n'
    assert [t for _, t in texts_of(source, with_docs=True)] == ["i {} k", "c d", "e f"]
    assert [t for _, t in texts_of(source, with_docs=False)] == ["i {} k", "e f"]
