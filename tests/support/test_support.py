"""The bundle of a run on this machine, with secrets planted in every place that goes into it."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.install.stack.lock_file import render
from tests.run.test_ps_local import Here
from tests.stack.test_lock import LOCK

# each is found by its place or by its form
SECRETS = {
    "variable": "plaintextvariable", "short": "zq9x", "quoted": "it's $ecret",
    "option": "optionvalue1", "joined": "joinedvalue2", "words": "three little words",
    "assigned": "assignedvalue3", "login": "loginvalue4", "shape": "hf_AbCdEfGhIjKlMnOp",
    "printed": "printedvalue5", "bearer": "bearervalue6.x", "json": "jsonvalue7",
    "yaml": "yaml value with words", "dsn": "dsnvalue8", "pem": "MIIEowIBAAKCAQEA7",
    "cut": "QmFzZTY0" * 9, "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "github": "ghp_0123456789abcdefABCDEF", "lock": "lockvalue9", "comment": "commentvalue10",
    "host variable": "hostvarvalue11", "query": "queryvalue12", "setting": "settingvalue13",
    "short option": "shortvalue14", "user": "uservalue15", "listed": "listedvalue16",
    "netrc": "netrcvalue", "cookie": "cookievalue18",
    "signature": "sigvalue19", "webhook": "T01/B02/hookvalue20", "escape": "escapedvalue21",
}  # fmt: skip
PRIVATE = ("annabel", "bignode", "10.77.9.9", "fd00:77::5", "bob@corp")
PRINTS = f"""\
import os, sys, torch
for name in ("MY_PASSWORD", "PIN_KEY", "HF_TOKEN"): print("value", os.environ.get(name), flush=True)
print("my_token={SECRETS["printed"]}")
print("sent Bearer {SECRETS["bearer"]}")
print({json.dumps(json.dumps({"client_secret": SECRETS["json"], "step": 7}))})
print("password: {SECRETS["yaml"]}")
print("psql ann:{SECRETS["dsn"]}@10.77.9.9 or fd00:77::5, of bob@corp.example")
print("-----BEGIN PRIVATE KEY-----\\n{SECRETS["pem"]}\\n-----END PRIVATE KEY-----")
print("{SECRETS["cut"]}\\n{SECRETS["jwt"]} {SECRETS["github"]}")
print("GET https://x.example/y?api_key={SECRETS["query"]}")
print(["--api-key", "{SECRETS["listed"]}"], "\\nmachine x login y\\n  password {SECRETS["netrc"]}")
print("Cookie: {SECRETS["cookie"]}\\nhttps://x.example/y?sig={SECRETS["signature"]}")
print("https://hooks.slack.com/services/{SECRETS["webhook"]}")
print("\\x1b[1mtok\\x1b[0men={SECRETS["escape"]}")
print(os.environ["HOME"], "bignode says: step 7 loss 0.5")
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    top = tmp_path / "annabel"
    top.mkdir()
    made = Here(top)
    made.env |= {
        "LOGNAME": "annabel", "MY_PASSWORD": SECRETS["variable"], "PIN_KEY": SECRETS["short"],
        "HF_TOKEN": SECRETS["quoted"],
    }  # fmt: skip
    (made.code / "train.py").write_text(PRINTS)
    (made.code / "hosts").write_text(
        f"bignode ansible_connection=local api_key={SECRETS['host variable']}\n"
        f"# password {SECRETS['comment']}\n"
    )
    settings = top / "home/.config/ipexctl/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'ssh_config = "/home/annabel/token={SECRETS["setting"]}"\n')
    yield made
    for run in made.started:
        run.kill()
        run.communicate()


def bundle(here: Here, *words: str) -> tuple[Path, dict[str, str], str]:
    done = here.call("support", "-f", "hosts", "-F", "/dev/null", *words)
    assert done.returncode == 0, done.stderr
    (path,) = here.code.glob("ipexctl-support-*.tar.gz")
    with tarfile.open(path) as archive:
        files = {
            name.removeprefix("ipexctl-support/"): file.read().decode()
            for name in archive.getnames()
            if (file := archive.extractfile(name))
        }
        owners = {(m.uname, m.uid, m.mtime) for m in archive.getmembers()}
    assert owners == {("", 0, 0)}
    return path, files, done.stdout


def run(here: Here) -> subprocess.CompletedProcess[str]:
    arguments = [
        "--token", SECRETS["option"], f"--api-key={SECRETS['joined']}", "--passphrase",
        SECRETS["words"], f"DB_SECRET={SECRETS['assigned']}", SECRETS["shape"],
        "-p", SECRETS["short option"], "-u", f"ann:{SECRETS['user']}",
        f"https://ann:{SECRETS['login']}@idx.example/x", "--lr", "0.125",
    ]  # fmt: skip
    names = [word for name in ("MY_PASSWORD", "PIN_KEY", "HF_TOKEN") for word in ("--env", name)]
    words = ("run", "--force", "-f", "hosts", "-F", "/dev/null", *names, "--name", "bert")
    done = here.call(*words, "train.py", *arguments)
    asked = f"own @ https://ann:{SECRETS['lock']}@idx.example/own-1-py3-none-any.whl"
    (here.code / "ipexctl.lock").write_text(render(replace(LOCK, requirements=(asked,))))
    return done


def test_no_planted_secret_and_no_name_is_in_a_bundle(here: Here) -> None:
    done = run(here)
    assert done.returncode == 0, done.stderr
    path, files, shown = bundle(here, "bert", "--logs")
    assert sorted(files) == [
        "hosts.json", "logs/rank00000.log", "run.json", "settings.json", "stack.json",
        "versions.json",
    ]  # fmt: skip
    assert all(name in shown for name in files)
    assert f": tar -xzOf {path.name}" in shown
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for text in (*files.values(), "".join(files)):
        for secret in (*SECRETS.values(), *PRIVATE):
            assert secret not in text and secret not in json.dumps(text), (secret, text)
    # what helps is still there
    assert "--lr 0.125" in files["run.json"] and '"name": "bert"' in files["run.json"]
    assert "host1 says: step 7 loss 0.5" in files["logs/rank00000.log"]
    assert "torch 2.13.0+cpu" in files["stack.json"]
    assert '"name": "host1"' in files["hosts.json"]
    assert re.search(r'"ipexctl": "\d', files["versions.json"])


def test_all_secrets_would_be_in_it_without_redaction(here: Here) -> None:
    """The test above looks for what is really there."""
    assert run(here).returncode == 0
    logs = here.call("logs", "bert", "--hostfile", "hosts", "-F", "/dev/null").stdout
    command = here.call("ps", "-a", "-f", "hosts", "-F", "/dev/null").stdout
    places = logs + command + "".join(
        (here.code / name).read_text() for name in ("hosts", "ipexctl.lock")
    ) + (here.code.parent / "home/.config/ipexctl/config.toml").read_text()  # fmt: skip
    there = (*SECRETS.values(), *PRIVATE)
    assert [secret for secret in there if secret not in places] == []


def test_without_logs_no_output_of_ranks_is_in_it(here: Here) -> None:
    assert run(here).returncode == 0
    _, files, _ = bundle(here, "@last")
    assert sorted(files) == [
        "hosts.json", "run.json", "settings.json", "stack.json", "versions.json"
    ]  # fmt: skip


def test_a_lock_that_cannot_be_read_is_in_the_bundle_as_its_error(here: Here) -> None:
    (here.code / "ipexctl.lock").write_text("schema = 99\n")
    _, files, _ = bundle(here)
    assert json.loads(files["stack.json"])["error"]["what"].startswith("ipexctl.lock")


def test_a_run_that_does_not_exist_is_refused_and_logs_need_one(here: Here) -> None:
    done = here.call("support", "-f", "hosts", "-F", "/dev/null", "nosuch")
    assert (done.returncode, "nosuch" in done.stderr or " runs " in done.stderr) == (2, True)
    done = here.call("support", "--logs", "-F", "/dev/null", "--json")
    assert json.loads(done.stdout)["errors"][0]["slug"] == "run-not-given"
    assert list(here.code.glob("ipexctl-support-*")) == []


def test_json_names_the_file(here: Here) -> None:
    done = here.call("support", "-f", "hosts", "-F", "/dev/null", "--json")
    found = json.loads(done.stdout)
    assert Path(found["path"]).stat().st_size == found["bytes"]
    assert found["files"] == ["versions.json", "settings.json", "stack.json", "hosts.json"]
