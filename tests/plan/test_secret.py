"""--secret-env in the pure parts: names are planned, values are in no plan and no message."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.run.outcome.result_document import full_plan
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.typed_values import secret_values
from tests.made import facts, host, prepared

HERE = {"HF_TOKEN": "hush", "DB": ""}


@pytest.mark.parametrize(
    ("words", "slug", "name"),
    [
        (["HF_TOKEN=hush"], "secret-with-value", "HF_TOKEN"),
        (["NOT_HERE"], "secret-not-set", "NOT_HERE"),
        (["hush hush"], "secret-name-invalid", ""),
    ],
)
def test_what_is_refused_names_the_variable_and_never_its_value(words, slug, name):
    with pytest.raises(InputError) as refused:
        secret_values(words, HERE)
    assert refused.value.slug == slug and name in refused.value.what
    assert "hush" not in f"{refused.value.what} {refused.value.why} {refused.value.hint}"


def test_a_name_is_taken_once_and_may_be_empty():
    assert secret_values(["DB", "HF_TOKEN", "DB"], HERE) == {"DB": "", "HF_TOKEN": "hush"}


def planned(*names: str):
    nodes = [PlannedHost(host(name), facts(name), prepared()) for name in ("node01", "node02")]
    return make_launch_plan(nodes, RunRequest(("t.py",), 2, secret=names), "made-run")


@pytest.mark.parametrize("name", ["RANK", "MASTER_PORT", "OMP_NUM_THREADS", "PATH", "IPEXCTL_X"])
def test_what_the_plan_sets_is_no_secret(name):
    with pytest.raises(InputError) as e:
        planned(name)
    assert e.value.slug == "secret-is-planned" and name in e.value.what


def test_plans_have_the_name_alone():
    assert full_plan(planned("HF_TOKEN"))["secret"] == ["HF_TOKEN"]


@pytest.mark.parametrize("asked", ["--explain", "--json"])
def test_programs_of_an_ssh_config_do_not_inherit_it(tmp_path, asked):
    seen = tmp_path / "seen"
    (tmp_path / "t.py").write_text("")
    (tmp_path / "config").write_text(
        f"Host *\n  ProxyCommand sh -c '(env; ulimit -c) >{seen}.new; mv {seen}.new {seen}'\n"
    )
    words = ["run", "-H", "h1", "-F", "config", "--secret-env", "CANARY", "--env", "WORD=x"]
    running = subprocess.Popen(
        ["sh", "-c", 'ulimit -S -c $(ulimit -H -c); exec "$@"', "sh",
         sys.executable, "-m", "ipexctl", *words, asked, "t.py"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "CANARY": "hush"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not seen.exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.terminate()  # it would ask that program again
    running.wait(20)
    said = seen.read_text().splitlines()
    assert said[-1] == "0"
    assert not [line for line in said if "hush" in line]
    assert [line for line in said if line.startswith("PATH=")]
