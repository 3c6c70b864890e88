"""Paths as the user knows them."""

import pytest

from ipexctl.run.output.short_paths import is_own_frame, shortened

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
    assert shortened(text) == short


def test_frames_of_the_user():
    assert is_own_frame(f'  File "{RUN}/train.py", line 61, in step')
    assert not is_own_frame(f'  File "{ENV}/torch/nn/m.py", line 2, in f')
