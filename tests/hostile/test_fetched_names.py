"""Which of the paths that a host lists are fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.run.watch.fetch_outputs import explain_refusal, resolve_patterns
from tests.run.test_ps_local import Here

OBEYED = (
    ".git/config", ".GIT", ".vscode/tasks.json", ".envrc", ".bashrc", ".ssh/authorized_keys",
    ".gitattributes", ".bash_aliases", ".emacs.d/init.el", ".nanorc", ".helix/config.toml",
    ".pdbrc", "HEAD", "ipexctl.toml", "ipexctl.lock", "uv.toml", "mise.toml", "sitecustomize.py",
    "new/.kakrc", ".a-program-of-next-year",
)  # fmt: skip
TAKEN = ("loss.csv", "ckpt/.metadata", ".hydra/config.yaml")


@pytest.mark.parametrize("words", [["out"], ["**"], ["*"], ["out", "--merge"], ["out", "-o", "."]])
def test_what_programs_here_obey_is_not_fetched(tmp_path: Path, words: list[str]) -> None:
    here = Here(tmp_path)
    (here.code / "train.py").write_text(
        "from pathlib import Path\n"
        f"for name in {OBEYED + TAKEN}:\n"
        "    path = Path('out', name)\n"
        "    path.parent.mkdir(parents=True, exist_ok=True)\n"
        "    path.write_text('run me')\n"
    )
    assert here.call("run", "-n", "1", "--force", "train.py").returncode == 0
    there = {path for path in here.code.rglob("*") if path.is_file()}
    done = here.call("fetch", "@last", *words)
    assert done.returncode == 1, done  # not all that matched came
    came = [path for path in here.code.rglob("*") if path.is_file() and path not in there]
    came = [path for path in came if path.read_text() == "run me"]
    assert sorted(path.name for path in came) == sorted(Path(name).name for name in TAKEN)
    assert "out/.gitattributes was not taken" in done.stderr + done.stdout


@pytest.mark.parametrize("where", [".git", ".git/hooks", "src/.vscode"])
def test_a_hidden_folder_that_a_host_says_the_ranks_started_in_is_not_named(where: str) -> None:
    typed = ("*",)
    wanted = resolve_patterns(where, typed)
    assert explain_refusal(f"{where}/config", wanted, typed)
    assert not explain_refusal("src/config", resolve_patterns("src", typed), typed)


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
        (".metadata", "**", True),
        (".cache/x", "**", False),
        (".cache/x", ".cache", True),
        (".cache/.git/config", ".cache", False),
    ],
)
def test_only_what_was_asked_for_is_fetched(path: str, pattern: str, taken: bool) -> None:
    assert (explain_refusal(path, (pattern,)) == "") == taken
