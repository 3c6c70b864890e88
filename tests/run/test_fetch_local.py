"""fetch of a file that the run does not have: the one that was probably meant is offered."""

from __future__ import annotations

import pytest

from tests.cli import ipexctl
from tests.pastable import why_not_pastable
from tests.run.test_ps_local import Here

WRITE = (
    "from pathlib import Path\n"
    "for name in ('model.pt', 'model.py', 'out/loss.csv', 'ckpt/a b.pt', '-w.pt', '.env'):\n"
    "    Path(name).parent.mkdir(exist_ok=True)\n"
    "    Path(name).write_text('x')\n"
)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Here:
    here = Here(tmp_path_factory.mktemp("ended"))
    (here.code / "src").mkdir()
    (here.code / "pyproject.toml").touch()
    for name, folder in (("bert", here.code), ("below", here.code / "src")):
        (folder / "write.py").write_text(WRITE)
        line = ("run", "-n", "1", "--force", "--name", name, "write.py")
        done = ipexctl(*line, cwd=folder, env=here.env)
        assert done.returncode == 0, done
    return here


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fetch bert modl.pt", "fetch bert model.pt"),  # not model.py, which is as similar
        ("fetch bert loss.csv", "fetch bert out/loss.csv"),
        ("fetch bert out/los.csv --merge", "fetch bert out/loss.csv --merge"),
        ("fetch bert ouut", "fetch bert out"),
        ("fetch below modl.pt", "fetch below model.pt"),
        ("fetch bert 'ab.pt'", ""),  # names with blanks, and hidden ones, are not offered
        ("fetch bert -- --w.pt", ""),
        ("fetch bert env", ""),
        ("fetch bert nothing.npz", ""),
        ("fetch bert '*.npz'", ""),
    ],
)
def test_the_file_that_was_probably_meant_is_offered(ended: Here, words: str, offered: str) -> None:
    done = ended.call(*words.replace("'", "").split())
    lines = [line for line in done.stdout.splitlines() if "try:" in line]
    assert (done.returncode, lines) == (1, [f"  try: ipexctl {offered}"] * bool(offered)), done
    if offered:
        assert why_not_pastable(f"ipexctl {offered}") == ""
        assert ended.call(*offered.split()).returncode == 0
