"""Data that Git ignores is sent, unless its name says that it is a secret."""

from __future__ import annotations

import pytest

from ipexctl.project.files.project_files import ignored_data


@pytest.mark.parametrize(
    "path",
    [
        "wallet.dat", "creds.pickle", "cookies.pkl", "keystore.dat", "secring.gz", "ssh.tar.gz",
        "data/rootkey.csv", "data/user_accessKeys.csv", "data/passphrase.txt", "data/pass.txt",
        "data/authtoken.txt", "data/sshkey.txt", "data/privatekey.txt", "data/cookies.txt",
        "data/recovery-codes.txt", "data/mnemonic.txt", "data/jwt.txt", "data/pgpass.txt",
        "data/masterkey.bin", "data/wifi-psk.txt", "data/keyring.zip", "data/AUTH_TOKEN.TXT",
    ],
)  # fmt: skip
def test_what_git_ignores_is_no_data_if_it_may_be_a_secret(path: str) -> None:
    assert not ignored_data([(path, 10)], ("",))


@pytest.mark.parametrize(
    "path",
    [
        "data/cookie/1.jpg", "data/turkey/1.jpg", "data/train_tokens.bin", "data/authors.csv",
        "tokenizer.model", "data/keypoints.csv", "data/monkey.csv", "data/compass.csv",
        "data/bypass.txt", "keyframes.npz", "data/vocab.txt", "train.tar.gz", "data/key_1.png",
        "data/first_pass.npy", "data/passengers.csv",
    ],
)  # fmt: skip
def test_data_is_sent(path: str) -> None:
    expected = "key_" not in path  # a word of its own
    assert bool(ignored_data([(path, 10)], ("",))) == expected
