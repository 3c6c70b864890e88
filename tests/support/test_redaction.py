"""What other people may not read, in any text: secrets, names, addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipexctl.support.redaction import Redactor, secret_values

ENVIRON = {"HF_TOKEN": "from-the-environment", "TOKENIZERS_PARALLELISM": "false", "PATH": "/bin"}


def redactor() -> Redactor:
    found = Redactor(secrets=secret_values(ENVIRON), homes=["/home/ann"])
    found.hosts("node01", "gpu7.lab.example", "10.1.2.3")
    found.users("ann", "root")
    return found


@pytest.mark.parametrize(("text", "expected"), [
    ("x from-the-environment y", "x ******** y"),
    ("train.py --token s3cret --lr 0.1", "train.py --token ******** --lr 0.1"),
    ("train.py --api-key=s3cret --lr 0.1", "train.py --api-key=******** --lr 0.1"),
    ("train.py --password 'two words' --lr 0.1", "train.py --password ******** --lr 0.1"),
    ("train.py --use-auth-token --lr 0.1", "train.py --use-auth-token --lr 0.1"),
    ("WANDB_API_KEY=s3cret python train.py", "WANDB_API_KEY=******** python train.py"),
    ("password: two words", "password: ********"),
    ("secret = two words", "secret = ********"),
    ("{'token': 's3cret', 'lr': 1}", "{'token': ********, 'lr': 1}"),
    ('{"db_passwd": "s3\\"cret", "lr": 1}', '{"db_passwd": ********, "lr": 1}'),
    ("https://u:p@ss@idx.example/simple", "https://********idx.example/simple"),
    ("mysql u:s3cret@db1", "mysql ********@db1"),
    ("Authorization: Bearer s3cret.s3cret", "Authorization: ********"),
    ("sent Bearer s3cret.s3cret", "sent Bearer ********"),
    ("got hf_abcdefghijklmnop", "got ********"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.abc end", "******** end"),
    ("a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb",
     "a\n********\nb"),
    ("a\n" + "Ab1+" * 16 + "\nb", "a\n********\nb"),
    ("KeyError: 'layer.weight'", "KeyError: 'layer.weight'"),
    ("3 tests passed: fine", "3 tests passed: fine"),
    ("/home/ann/train.py, /home/ann2/x", "~/train.py, /home/user2/x"),
    ("ann_results on node01-eth0, NODE01", "user1_results on host1-eth0, host1"),
    ("gpu7 gpu7.lab.example gpu70", "host2 host2.domain gpu70"),
    ("by ann@node01, bob@far.example", "by user1@host1, user2@host3.domain"),
    ("10.1.2.3:29500 and fe80::1, 10.1.2.3", "addr1:29500 and addr2, addr1"),
    ("at 10:35:19, torch 2.13.0, 127.0.0.1", "at 10:35:19, torch 2.13.0, 127.0.0.1"),
    ("root is root", "root is root"),
])  # fmt: skip
def test_a_text_says_nothing_that_others_may_not_read(text: str, expected: str) -> None:
    assert redactor().text(text) == expected


def test_a_flag_is_not_taken_for_a_secret() -> None:
    assert secret_values(ENVIRON) == {"from-the-environment"}


def test_a_document_keeps_its_keys_and_its_numbers() -> None:
    given = {"node01": "node01", "port": 22, "api_token": "s", "list": ["ann", None, True]}
    assert redactor().value(given) == {
        "node01": "host1", "port": 22, "api_token": "********", "list": ["user1", None, True],
    }  # fmt: skip


@given(st.text(min_size=8, max_size=60), st.text(max_size=60))
def test_a_known_secret_is_in_no_text(secret: str, around: str) -> None:
    found = Redactor(secrets=[secret]).text(f"{around}{secret}{around} and {secret}")
    assert secret not in found or secret in "********"
