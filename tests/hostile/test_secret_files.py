"""Files that may hold secrets, by their names: none is sent unasked, also not as data that Git
ignores."""

from __future__ import annotations

import pytest

from ipexctl.project.files.project_files import ignored_data, is_never_sent
from ipexctl.remote.secret_names import is_secret_in_data


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".ENV", ".env.local", "ID_RSA", "id_ed25519", "server.PEM", "SERVER.KEY", "_netrc",
        ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".gnupg", ".kube", ".docker", ".azure",
        ".htpasswd", ".vault-token", ".s3cfg", ".boto", ".databrickscfg", "a.p12", "a.pfx",
        "a.kdbx", "a.jks", "a.ppk",
    ],
)  # fmt: skip
def test_a_name_of_secrets_is_never_sent(name: str) -> None:
    assert is_never_sent(name)


@pytest.mark.parametrize(
    "name",
    [".npmrc", ".pgpass", ".gnupg", ".kube", ".docker", "id_rsa", "id_ed25519", ".Netrc", ".AWS"],
)
def test_nor_in_a_dataset(name: str) -> None:
    assert is_secret_in_data(name)


@pytest.mark.parametrize("name", ["id_0001.png", "a.key", "a.pem", "data.env.csv", "docker"])
def test_names_of_data_are_sent_in_a_dataset(name: str) -> None:
    assert not is_secret_in_data(name)


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
