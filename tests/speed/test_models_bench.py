"""bench models on practice hosts with the real torch: fields of its document, not its speeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ipexctl.lab import Lab
from tests.cli import ipexctl

ENGINES = {("eager", 1), ("eager", 2), ("compile", 1), ("ipex", 1)}


def test_each_row_has_a_speed_or_a_reason(installed_lab: Lab, tmp_path: Path) -> None:
    reach = ("-f", str(installed_lab.hostfile), "-F", str(installed_lab.ssh_config))
    words = ("--small", "--models", "bert", "-x", "node03", "--time", "60s", "--json")
    done = ipexctl("bench", "models", *reach, *words, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"]) == (0, 0), done.stderr
    assert document["models"] == {"bert": {"batch": 2, "length": 64, "layers": 2}}
    assert [h["host"] for h in document["hosts"]] == ["node01", "node02"]
    assert all(h["threads"] and h["isa"] and h["onednn"] for h in document["hosts"])
    found = {
        tuple(r[k] for k in ("work", "precision", "engine", "hosts")) for r in document["rows"]
    }
    works = ("inference", "training")
    expected = {(w, p, e, n) for e, n in ENGINES for w in works[n - 1 :] for p in ("fp32", "bf16")}
    assert found == expected | {("inference", "int8", "eager", 1)}
    for row in document["rows"]:
        measured = row["state"] == "ok"
        assert measured == bool(row["samples_per_second"]) == bool(row["ratio_to_fp32"])
        assert measured == (row["reason"] is None)
    first = document["rows"][0]
    assert (first["state"], first["relative_error"], first["same_argmax"]) == ("ok", 0.0, 1.0)
    reasons = {r["reason"] for r in document["rows"] if r["engine"] == "ipex"}
    assert reasons == {"no-ipex"}


@pytest.mark.parametrize(
    "words", [("--models", "gpt"), ("--precision", "fp8"), ("--precision", "")]
)
def test_an_unknown_name_is_refused_before_any_host_is_asked(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = ipexctl("bench", "models", "-H", "node01", *words, cwd=tmp_path)
    assert (done.returncode, done.slug) == (2, "unknown-value")
