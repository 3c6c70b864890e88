"""Paths as the user knows them, and a long traceback in a few lines."""

import pytest

from ipexctl.run.output.short_paths import short_traceback, shorten_paths

RUN = "/home/trainer/.ipexctl/runs/20261123-101010-ab12/work"
ENV = "/home/trainer/.ipexctl/envs/0123abcd/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (f'  File "{RUN}/train.py", line 61, in step', '  File "train.py", line 61, in step'),
        (f'  File "{ENV}/torch/nn/m.py", line 2, in f', '  File "torch/nn/m.py", line 2, in f'),
        (f"saved to {RUN}/out/a.pt and {RUN}/out/b.pt", "saved to out/a.pt and out/b.pt"),
        (f"path={RUN}/x", "path=x"),
        ("/srv/work/x", "/srv/work/x"),
        ("no path", "no path"),
    ],
)
def test_shortened(text: str, short: str):
    assert shorten_paths(text) == short


# --- tracebacks ----------------------------------------------------------------------------------

OWN = '  File "/home/me/.ipexctl/runs/r1/work/train.py", line {}, in {}'
THEIRS = (
    '  File "/home/me/.ipexctl/envs/e/lib/python3.11/site-packages/torch/nn/module.py", line {}'
)


def test_own_frames_and_the_error_stay():
    deep = [
        line for n in range(9) for line in (THEIRS.format(n), f"    call{n}()", "    ^^^^~~~^^")
    ]
    text = [
        "Traceback (most recent call last):", OWN.format(9, "main"), "    step(batch)",
        "    ^^^^^^^^^^^", *deep, OWN.format(3, "loss"), "    return x / 0", "ZeroDivisionError: x",
    ]  # fmt: skip
    assert short_traceback(text) == [
        text[0], OWN.format(9, "main"), "    step(batch)", "  ...", "    call7()",
        THEIRS.format(8), "    call8()", *text[-3:],
    ]  # fmt: skip


def test_a_short_one_loses_only_the_marks_below_code():
    text = ["Traceback (most recent call last):", OWN.format(1, "f"), "    1 / 0", "    ~~^~~", "E"]
    assert short_traceback(text) == [*text[:3], "E"]
    assert short_traceback(["", "a"]) == ["", "a"]
