"""What other people may not read, in any text: secrets, names, addresses."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipexctl.base.secret_mask import SecretMask
from ipexctl.support.redaction import Redactor


def redactor() -> Redactor:
    found = Redactor(mask=SecretMask(["from-the-environment"]), homes=["/home/ann"])
    found.add_hosts("node01", "gpu7.lab.example", "10.1.2.3")
    found.add_users("ann", "root")
    return found


@pytest.mark.parametrize(("text", "expected"), [
    ("x from-the-environment y", "x ******** y"),
    ("train.py --token s3cret --lr 0.1", "train.py --token ******** --lr 0.1"),
    ("/home/ann/train.py, /home/ann2/x", "~/train.py, /home/user2/x"),
    ("ann_results on node01-eth0, NODE01", "user1_results on host1-eth0, host1"),
    ("gpu7 gpu7.lab.example gpu70", "host2 host2.domain gpu70"),
    ("by ann@node01, bob@far.example", "by user1@host1, user2@host3.domain"),
    ("10.1.2.3:29500 and fe80::1, 10.1.2.3", "addr1:29500 and addr2, addr1"),
    ("at 10:35:19, torch 2.13.0, 127.0.0.1", "at 10:35:19, torch 2.13.0, 127.0.0.1"),
    ("root is root", "root is root"),
])  # fmt: skip
def test_a_text_says_nothing_that_others_may_not_read(text: str, expected: str) -> None:
    assert redactor().redact_text(text) == expected


def test_a_document_keeps_its_keys_and_its_numbers() -> None:
    given = {"node01": "node01", "port": 22, "api_token": "s", "list": ["ann", None, True]}
    assert redactor().redact_document(given) == {
        "node01": "host1", "port": 22, "api_token": "********", "list": ["user1", None, True],
    }  # fmt: skip


@given(st.text(min_size=8, max_size=60), st.text(max_size=60))
def test_a_known_secret_is_in_no_text(secret: str, around: str) -> None:
    found = Redactor(mask=SecretMask([secret])).redact_text(
        f"{around}{secret}{around} and {secret}"
    )
    assert secret not in found or secret in "********"


@pytest.mark.parametrize("size", [2_000, 16_000])
def test_names_that_only_a_text_has_do_not_slow_it_down(size: int) -> None:
    text = "\n".join(f"u{i}@h{i}.example" for i in range(size))
    began = time.process_time()
    redactor().redact_text(text)
    assert time.process_time() - began < size / 2_000
