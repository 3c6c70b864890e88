"""Files that may hold secrets, by their names: none is sent unasked, also not as data that Git
ignores."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.common.secret_names import is_secret_in_data
from ipexctl.project.files.project_files import ignored_data
from tests.run.test_ps_local import Here

SECRET = (
    ".env", ".ENV", ".env.local", "ID_RSA", "id_ed25519", "server.PEM", "SERVER.KEY", "_netrc",
    ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".gnupg/ring", ".kube/config", ".azure/x",
    ".docker/config.json", ".htpasswd", ".vault-token", ".s3cfg", ".boto", ".databrickscfg",
    "a.p12", "a.pfx", "a.kdbx", "a.jks", "a.ppk", "kubeconfig", "kubeconfig.yaml", "wallet.dat",
    "service-account.json", "my/terraform.tfstate", "terraform.tfstate.backup", "prod.tfvars",
    "#id_rsa#", ".id_rsa.swp", ".key.pem.un~", "Copy of id_rsa", "copy-id_rsa", "key.pem (copy)",
    "credentials (1).json", "credentials copy.json", "credentials.bak.json", "key.pem.BAK2",
    "key.pem_bak", "key.pem.bak.gz", ".netrc_old", "key.pem.new", "key.pem.dpkg-old", "key.p8",
    ".secrets.toml", "secret.yaml", "key.pem.bak", "key.pem~", "id_rsa.old", "a.gpg",
    "key.pem - Kopie", ".netrc - copia", "Kopie von id_rsa", "Copy (2) of id_rsa",
    "backup of id_rsa", "Copia di id_rsa", "key.pem.~1~", "key.pem.tar.gz", "key.pem.asc",
    "copie de key.pem",
    "client_secret_7.json", "credentials.json",
)  # fmt: skip
CODE = (
    "train.py", "id_tools.py", "kubeconfig.py", "secrets.py", "data.1", "model.bak", "copy.py",
    "newest.py", "token_copy.py", "old.json", "model (1).pt", "key_new.py",
)  # fmt: skip


@pytest.mark.parametrize("ignoring", ["", "*\n"])
def test_a_name_of_secrets_is_never_sent(tmp_path: Path, ignoring: str) -> None:
    """In the folder of a run, from a project with and without Git's rules."""
    here = Here(tmp_path)
    for name in SECRET + CODE:
        path = here.code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("print()")
    (here.code / ".gitignore").write_text(ignoring)
    (here.code / ".ipexctlignore").write_text("!*\n")  # send what Git's rules leave out
    done = here.call("run", "-n", "1", "--force", "train.py")
    assert done.returncode == 0, done
    (work,) = Path(here.env["HOME"]).glob(".ipexctl/runs/*/work")
    sent = {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}
    assert sent - {".gitignore", ".ipexctlignore"} == set(CODE)


@pytest.mark.parametrize(
    "name",
    [
        ".npmrc",
        ".pgpass",
        ".gnupg",
        ".kube",
        ".docker",
        "id_rsa",
        "id_ed25519",
        ".Netrc",
        ".AWS",
        ".netrc~",
        ".ssh.bak",
        "id_rsa.old",
        "token.bak",
        ".git-credentials.bak",
    ],
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
        "data/my.wallet.bin", "data/v1.recovery-codes.txt", "data/x.cookies.txt",
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
