"""A long traceback in a few lines."""

from ipexctl.run.output.short_paths import short_traceback

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
