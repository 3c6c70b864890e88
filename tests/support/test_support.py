"""The bundle of a run on this machine: what is in it is named, and nothing else is."""

from __future__ import annotations

import json
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.remote.run_files import journal
from ipexctl.stack.lock_file import render_lock
from tests.made import journal_bytes
from tests.run.test_ps_local import Here
from tests.stack.test_lock import LOCK

PRIVATE = ("annabel", "bignode", "10.77.9.9", "fd00:77::5", "bob@corp")
PRINTS = """\
import os
print("psql on 10.77.9.9 or fd00:77::5, of bob@corp.example")
print(os.environ["HOME"], "bignode says: step 7 loss 0.5")
"""
ARGUMENTS = "--lr 0.125 --size=8 -p 1234 -pcanary --model canary canary"
ALWAYS = ["hosts.json", "settings.json", "stack.json", "versions.json"]
OF_A_RUN = sorted([*ALWAYS, "plan.json", "run.json"])


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    top = tmp_path / "annabel"
    top.mkdir()
    made = Here(top)
    made.env["LOGNAME"] = "annabel"
    (made.code / "train.py").write_text(PRINTS)
    (made.code / "hosts").write_text("bignode ansible_connection=local rack=canary\n")
    (made.code / "ipexctl.toml").write_text(
        'ssh_config = "canary"\nforks = 7\n[run]\ncompress = "fp16"\nenv = { A = "canary" }\n'
    )
    yield made


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


def run(here: Here) -> None:
    words = ("run", "--force", "-f", "hosts", "-F", "/dev/null", "--name", "bert")
    done = here.call(*words, "--env", "A=canary", "train.py", *ARGUMENTS.split())
    assert done.returncode == 0, done.stderr
    asked = "canary-own==1.0"
    (here.code / "ipexctl.lock").write_text(render_lock(replace(LOCK, requirements=(asked,))))


def fields(value: Any) -> Any:
    """The names of the fields, without the values."""
    if isinstance(value, dict):
        return {key: fields(inner) for key, inner in value.items()}
    return [fields(value[0])] if isinstance(value, list) and value else None


def with_more_fields(value: Any) -> Any:
    """As a host of a later version might write them."""
    if isinstance(value, dict):
        names = ("packages", "variables")  # whose keys are no fields
        more = {k: v if k in names else with_more_fields(v) for k, v in value.items()}
        if "findings" in more:
            more["findings"] = [["CLOCK-001", "canary[01-02]", "canary is late"]]
        return {**more, "new": "canary2"}
    return [with_more_fields(inner) for inner in value] if isinstance(value, list) else value


def test_a_bundle_has_the_fields_that_are_named_and_no_others(here: Here) -> None:
    run(here)
    (path,) = (here.code.parent / "home/.ipexctl/runs").glob("*/journals/bignode")
    kept = [document for document, _ in journal.iter_documents(path.read_bytes())]
    path.write_bytes(journal_bytes(*map(with_more_fields, kept)))
    assert b"canary2" in path.read_bytes()
    _, files, _ = bundle(here, "bert")
    assert sorted(files) == OF_A_RUN
    assert [name for name, text in files.items() if "canary" in text] == []
    shown = {name: json.loads(text) for name, text in files.items()}
    assert shown["settings.json"] == {
        "ssh_config": "(set)", "forks": 7, "run.compress": "fp16", "run.env": "(set)"
    }  # fmt: skip
    assert shown["plan.json"]["plan"]["arguments"] == [
        "...", "--lr", "0.125", "--size", "8", "...", "...", "...", "--model", "...", "..."
    ]  # fmt: skip
    assert shown["plan.json"]["findings"] == ["CLOCK-001"]
    assert {name: fields(shown[name]) for name in ("hosts.json", "run.json", "plan.json")} == {
        "hosts.json": {
            "hosts": [dict.fromkeys(("name", "address", "port", "user", "slots", "local"))],
            "last_command": dict.fromkeys(("healthy", "last-failed")),
        },
        "run.json": {
            **dict.fromkeys(("id", "began", "seconds", "started", "ok", "bytes", "exit_code")),
            **dict.fromkeys(("state", "first")),
            "about": {**dict.fromkeys(("ranks", "version")), "hosts": [None]},
            "verdict": dict.fromkeys(("exit_code", "ended_by", "lost")),
            "hosts": [dict.fromkeys((
                "host", "target", "alive", "began", "seconds", "started", "ok", "begun", "decided",
                "bytes", "format", "unreadable", "stall", "kept",
            ))],
        },
        "plan.json": {
            "plan": {
                **dict.fromkeys(("world_size", "master_port", "mpi", "ddp", "tuned")),
                "arguments": [None],
                "hosts": [{
                    **dict.fromkeys(("host", "nic", "threads", "quota")),
                    "ranks": [{**dict.fromkeys(("rank", "local_rank", "node")), "cpus": [None]}],
                }],
            },
            "facts": [dict.fromkeys((
                "host", "cpu", "cores", "quota", "governors", "max_khz", "turbo", "memory", "thp",
                "kernel", "load", "speed", "variables",
            ))],
            "inputs": dict.fromkeys(("environment", "packages")),
            "findings": [None],
        },
    }  # fmt: skip


def test_names_have_aliases_and_what_helps_is_there(here: Here) -> None:
    run(here)
    path, files, shown = bundle(here, "bert", "--logs")
    assert sorted(files) == sorted([*OF_A_RUN, "logs/rank00000.log", "logs/run.txt"])
    assert all(name in shown for name in files)
    assert f"look through it before you send it: tar -xzOf {path.name}" in shown
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for name, text in files.items():
        for private in PRIVATE:
            assert private not in text and private not in json.dumps(text), (private, name)
    assert "host1 says: step 7 loss 0.5" in files["logs/rank00000.log"]
    assert "torch 2.13.0+cpu" in files["stack.json"] and "canary" not in files["stack.json"]
    assert '"name": "host1"' in files["hosts.json"]
    assert re.search(r'"ipexctl": "\d', files["versions.json"])


def test_an_error_is_in_the_bundle_without_its_words(here: Here) -> None:
    (here.code / "ipexctl.lock").write_text("schema = 99\ncanary")
    (here.code / "hosts").write_text("bignode password=canary slots=x\n")
    _, files, _ = bundle(here)
    assert set(json.loads(files["stack.json"])) == {"error", "exit_code"}
    assert set(json.loads(files["hosts.json"])) == {"error", "exit_code"}
    assert "canary" not in "".join(files.values())


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
    assert sorted(found["files"]) == ALWAYS
