"""Which of the paths that a host lists are fetched."""

from __future__ import annotations

import pytest

from ipexctl.run.watch.fetch_outputs import why_not_taken


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", "out/.git/hooks/post-checkout", "out/.GIT", "out/.vscode/tasks.json",
        ".envrc", ".bashrc", "out/.ssh/authorized_keys", "ipexctl.toml", "out/ipexctl.lock",
        ".ipexctl/runs/x", "out/HEAD", "out/.dir-locals.el", "out/mise.toml", "out/.pdbrc",
        "out/.Rprofile", "out/.RData", "out/.env.local", "out/.cargo/config.toml", "uv.toml",
        "out/.nvim.lua", "out/.claude/settings.json", "out/.lldbinit", "out/.yarnrc.yml",
    ],
)  # fmt: skip
@pytest.mark.parametrize("pattern", ["**", "*", "out"])
def test_what_programs_here_obey_is_not_fetched(path: str, pattern: str) -> None:
    assert why_not_taken(path, (pattern,))


@pytest.mark.parametrize(
    ("path", "pattern", "taken"),
    [
        ("out/a.pt", "out", True),
        ("out/a/b.pt", "out", True),
        ("train.py", "out", False),
        ("outer/a.pt", "out", False),
        ("out/a.pt", "out/*.pt", True),
        ("out/a.py", "out/*.pt", False),
        ("a/b/c.pt", "**/*.pt", True),
        ("c.pt", "**/*.pt", True),
        ("a/b/c.py", "**/*.pt", False),
        ("a/ckpt/x/c.bin", "**/ckpt", True),
        ("a[1]/x", "a[[]1]/*", True),
        ("ckpt/.metadata", "ckpt", True),
        ("out/.hydra/config.yaml", "**", True),
        (".metadata", "**", False),
        (".metadata", ".metadata", True),
    ],
)
def test_only_what_was_asked_for_is_fetched(path: str, pattern: str, taken: bool) -> None:
    assert (why_not_taken(path, (pattern,)) == "") == taken
