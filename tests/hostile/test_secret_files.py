"""Files that may hold secrets, by their names: none is sent unasked."""

from __future__ import annotations

import pytest

from ipexctl.project.files.project_files import is_never_sent
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
