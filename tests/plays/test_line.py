"""The step `line` beside ansible.builtin.lineinfile, whose results are recorded in a table."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plays.on_host import line

# A pattern that matches more than its line: in Ansible, too, a second time adds one more.
AGAIN = ("regexp with $",)
CASES = json.loads((Path(__file__).parent / "lineinfile.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_line_step_does_what_lineinfile_does_and_once(
    case: dict[str, Any], tmp_path: Path
) -> None:
    path, wanted = tmp_path / "x", case.get("ours", case["then"]).encode()
    path.write_bytes(case["before"].encode())
    args = dict(case["args"])
    text = args.pop("line", None)
    checked = line(path, text, check=True, **args)
    assert path.read_bytes() == case["before"].encode()
    done = line(path, text, **args)
    assert path.read_bytes() == wanted
    assert checked["changed"] is done["changed"] is (wanted != case["before"].encode())
    assert line(path, text, **args)["changed"] is (case["name"] in AGAIN)


def test_bytes_that_are_no_utf8_stay(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a=\xff\n\xe9\n")
    line(path, "b")
    assert path.read_bytes() == b"a=\xff\n\xe9\nb\n"
