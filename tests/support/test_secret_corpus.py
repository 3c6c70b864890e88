"""Texts with a secret, texts without one, and how long hostile texts take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ipexctl.support.find_secrets import masked_secrets, plain
from ipexctl.support.redaction import Redactor
from tests.support.secret_corpus import HEALTHY, HEX, IN_TEXTS, MIXED, SHORT

TRAINING_LOGS = sorted((Path(__file__).parents[1] / "metrics/corpus").rglob("*.log"))


@pytest.mark.parametrize(("text", "secret"), IN_TEXTS)
def test_no_secret_is_left(text: str, secret: str) -> None:
    assert text.count("§") == 1
    found = Redactor().text(text.replace("§", secret))
    parts = [secret, *(part for part in secret.split() if len(part) > 3)]
    assert [part for part in parts if part in found] == []


@pytest.mark.parametrize(("text", "secret"), IN_TEXTS)
def test_no_secret_is_left_among_other_lines(text: str, secret: str) -> None:
    text = f"step 1 loss 0.5\n{text.replace('§', secret)}\nstep 2 loss 0.4\n"
    found = Redactor().text(text)
    assert secret not in found
    assert found.startswith("step 1 loss 0.5\n") and found.endswith("\nstep 2 loss 0.4\n")


def test_a_healthy_log_is_as_it_was() -> None:
    assert [line for line in HEALTHY.splitlines() if masked_secrets(line) != line] == []
    assert masked_secrets(HEALTHY) == HEALTHY


@pytest.mark.parametrize("path", TRAINING_LOGS, ids=lambda path: path.name)
def test_a_training_log_is_as_it_was(path: Path) -> None:
    shown = plain(path.read_text("utf-8"))
    assert masked_secrets(shown) == shown


def test_values_of_documents_are_judged_by_the_words_before_them() -> None:
    given = {
        "argv": ["--api-key", SHORT, "--lr", "0.1"], "headers": [["Cookie", MIXED]],
        "env": [{"name": "MY_TOKEN", "value": HEX}, {"name": "WORLD_SIZE", "value": "8"}],
    }  # fmt: skip
    assert Redactor().value(given) == {
        "argv": ["--api-key", "********", "--lr", "0.1"], "headers": [["Cookie", "********"]],
        "env": [{"name": "MY_TOKEN", "value": "********"}, {"name": "WORLD_SIZE", "value": "8"}],
    }  # fmt: skip


def test_a_key_without_an_end_does_not_hide_the_rest() -> None:
    line = "Ab1+" * 16
    text = f"a\n-----BEGIN RSA PRIVATE KEY-----\n{line}\n{line}\nAb1=\nstep 1\nstep 2\n"
    assert masked_secrets(text) == "a\n********\nstep 1\nstep 2\n"


HOSTILE = (
    "a=", "a", "=", '"', "'", "'\"", " ", "\n", "\\", '\\"', "\x1b[", "\x1b]", "\\x1b", "-", "@",
    ":", "f:", "A1b", "token", "token=", "token= ", "token ", "token=\n", 'token="', 'token=\\"',
    "key='", 'key="', "key=key ", "key=", "key = f(", "'key', ", "-p ", "-p'", "password:\n",
    "secret:\n  ", "eyJ", "hf_", "?a=", "://", "a:b@c", "http://a", "-----BEGIN",
    "-----BEGIN PRIVATE KEY-----", "Bearer ", "1.1.1.1 ", "/home/a", "$6$a", "-u a:", "token is ",
    "{", "(a", "login ", "login(a,", "echo ", "echo a|", "env A_KEY ", "password for :",
    "a:1234:b:c:",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length_alone(piece: str) -> None:
    short, long = (_seconds(piece * (size // len(piece))) for size in (5_000, 40_000))
    assert long < 0.02 + 8 * 3 * short


@pytest.mark.parametrize("size", [2_000, 16_000])
def test_names_that_only_a_text_has_do_not_slow_it_down(size: int) -> None:
    text = " ".join(f"u{i}@h{i}.example" for i in range(size))
    assert _seconds(text) < size / 2_000


def _seconds(text: str) -> float:
    """The least of three: others use this machine, too."""
    redactor = Redactor(secrets=["abcdefgh"])
    redactor.hosts(*(f"node{i:02}" for i in range(16)))
    redactor.users("ann")

    def once() -> float:
        began = time.process_time()
        masked_secrets(plain(text))  # of one line; lines of other texts are shortened
        redactor.text(text.replace(" ", "\n"))
        return time.process_time() - began

    return min(once() for _ in range(3))


def test_a_long_line_is_shortened_between_words() -> None:
    found = Redactor().text(f"{'word ' * 1599}{SHORT}\nnext\n")
    assert SHORT not in found and found.startswith("word word ") and found.endswith("\nnext\n")
    assert "more characters]" in found
