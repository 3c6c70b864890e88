"""What is made to be shared (report, support) has no secret of the run, in any of its files."""

from __future__ import annotations

import html
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.test_ps_local import Here

SECRETS = {
    "option": "optionvalue1", "joined": "joinedvalue2", "two words": "three little words",
    "in quotes": "it's \"quoted\" <b>", "assigned": "assignedvalue3", "url": "loginvalue4",
    "percent-encoded": "p%40ss%2Fword5", "decoded": "p@ss/word5", "variable": "plaintextvariable",
    "secret-env": "flavourvalue6",
    "header": "aGVhZGVydmFsdWU3eHg=", "json": "jsonvalue8", "named": "namedvalue9",
    "key": "MIIEowIBAAKCAQEA7", "second line of a key": "c2Vjb25kbGluZTEw", "cookie": "cookie11",
    "host variable": "hostvarvalue12", "comment": "commentvalue13", "setting": "settingvalue14",
    "url in a variable": "varurlvalue15", "index": "indexvalue16",
    "key in a variable": "S2V5VmFyMTc",
    "coloured": "colourvalue18", "variable in settings": "settingsenv19",
    "option with dashes": "--dashvalue20",
}  # fmt: skip
S = SECRETS
SCRIPT = f"""\
import argparse, os, sys
print("step 1 loss 0.5", flush=True)
print("Authorization: Basic {S["header"]}")
print({json.dumps(json.dumps({"client_secret": S["json"], "step": 7}))})
print("login failed for db_password={S["named"]} and https://ann:{S["named"]}@db.example/x")
print("\\x1b[1mtok\\x1b[0men={S["coloured"]}")
print(os.environ["FLAVOUR"], os.environ["MY_PASSWORD"])
key = sys.argv[sys.argv.index("--api-key") + 1]
joined = [w for w in sys.argv if w.startswith("--hf_token")][0].split("=")[1]
pem = "-----BEGIN PRIVATE KEY-----\\n{S["key"]}\\n"
pem += "{S["second line of a key"]}\\n-----END PRIVATE KEY-----"
raise ValueError(
    f"the server refused {{key}} and {{joined}}x, {S["decoded"]}, {{sys.argv[-2:]}}\\n{{pem}}\\n"
    "Cookie: {S["cookie"]}"
)
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    made = Here(tmp_path)
    made.env |= {
        "MY_PASSWORD": S["variable"], "FLAVOUR": S["secret-env"],
        "DEPLOY_KEY": f"-----BEGIN PRIVATE KEY-----\n{S['key in a variable']}\n"
        "-----END PRIVATE KEY-----",
        "PIP_INDEX_URL": f"https://ann:{S['index']}@index.example/simple",
    }  # fmt: skip
    (made.code / "train.py").write_text(SCRIPT)
    (made.code / "hosts").write_text(
        f"localhost ansible_connection=local api_key={S['host variable']}\n"
        f"# password {S['comment']}\n"
    )
    settings = tmp_path / "home/.config/ipexctl/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'ssh_config = "/x/token={S["setting"]}"\n'
        f'[run]\nenv = {{ THING_TOKEN = "{S["variable in settings"]}" }}\n'
    )
    yield made
    for run in made.started:
        run.kill()
        run.communicate()


def fail(here: Here) -> None:
    words = (
        "run", "--force", "-n", "2", "-f", "hosts", "-F", "/dev/null", "--name", "bert", "--env",
        "MY_PASSWORD", "--env", "DEPLOY_KEY", "--env",
        f"MIRROR=https://ann:{S['url in a variable']}@mirror.example/x", "--secret-env", "FLAVOUR",
    )  # fmt: skip
    arguments = (
        "--auth-token", S["option with dashes"],
        "--api-key", S["option"], f"--hf_token={S['joined']}", "--passphrase", S["two words"],
        f"--password={S['in quotes']}", f"DB_SECRET={S['assigned']}", "--lr", "0.125",
        f"https://ann:{S['url']}@idx.example/x",
        f"postgres://ann:{S['percent-encoded']}@db.example/x",
    )  # fmt: skip
    done = here.call(*words, "train.py", *arguments)
    assert done.returncode == 1 and "ValueError" in done.stdout + done.stderr, done.stderr


def shared(here: Here) -> dict[str, bytes]:
    """The files that a user sends to others, and the parts of archives, by command."""
    where = ("-f", "hosts", "-F", "/dev/null")
    made = here.call("report", "bert", *where, "-o", "page.html")
    assert made.returncode == 0, made.stderr
    found = {"report": (here.code / "page.html").read_bytes()}
    for name, words in {
        "json": ("report", "bert", "--json"), "stdout": ("report", "bert", "-o", "-"),
    }.items():  # fmt: skip
        done = here.call(*words, *where)
        assert done.returncode == 0, done.stderr
        found[name] = done.stdout.encode()
    for name, words in {"support": (), "logs": ("--logs",)}.items():
        done = here.call("support", "bert", *words, *where, "--json")
        assert done.returncode == 0, done.stderr
        path = Path(json.loads(done.stdout)["path"])
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                assert file
                found[f"{name}: {member.name}"] = file.read() + member.name.encode()
        path.unlink()
    return found


@pytest.mark.parametrize("folder", ["where it was started", "another one"])
def test_no_secret_of_a_failed_run_is_in_a_shared_file(here: Here, folder: str) -> None:
    fail(here)
    if folder == "another one":
        hosts = (here.code / "hosts").read_text()
        here.code = here.code.parent / "elsewhere"
        here.code.mkdir()
        (here.code / "hosts").write_text(hosts)
    found = shared(here)
    leaks = [
        f"{what} in {name}"
        for name, data in found.items()
        for what, secret in SECRETS.items()
        for form in {secret, json.dumps(secret)[1:-1], html.escape(secret), repr(secret)[1:-1]}
        if form.encode() in data
    ]
    assert sorted(set(leaks)) == []
    # what helps is still there, and the report says that secrets are masked
    report = json.loads(found["json"])
    assert "--lr 0.125" in report["command"] and "********" in report["command"]
    assert {"command", "cause", "variables"} <= {*report["masked"]}
    assert any("masked" in note for note in report["notes"])
    assert any("ValueError: the server refused" in line for line in report["cause"]["lines"])
    plan = json.loads(
        found["support: ipexctl-support/plan.json"][: -len("ipexctl-support/plan.json")]
    )
    assert plan["plan"]["arguments"][-4:] == ["--lr", "0.125", "...", "..."]
    assert b"step 1 loss 0.5" in found["logs: ipexctl-support/logs/rank00000.log"]


def test_a_bundle_without_logs_has_no_secret_without_a_name_either(here: Here) -> None:
    secrets = [f"hunter{n}" for n in range(1, 8)]
    script, name, short, joined, abbreviated, positional, printed = secrets
    (here.code / f"{script}.py").write_text(f"raise ValueError('{printed}')")
    where = ("-f", "hosts", "-F", "/dev/null")
    done = here.call(
        "run", "--force", "-n", "1", *where, "--name", name, f"{script}.py", "-p", short,
        f"-p{joined}", "--api-k", abbreviated, positional,
    )  # fmt: skip
    assert done.returncode == 1 and printed in done.stdout + done.stderr
    done = here.call("support", name, *where, "--json")
    with tarfile.open(json.loads(done.stdout)["path"]) as archive:
        parts = [file.read().decode() for m in archive if (file := archive.extractfile(m))]
    assert len(parts) == 6
    assert [secret for secret in secrets if secret in "".join(parts)] == []
