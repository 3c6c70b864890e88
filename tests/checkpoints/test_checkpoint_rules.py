"""Checkpoints, decided from values: partners, steps, what is missing, what stays."""

from __future__ import annotations

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.common import checkpoint_names
from ipexctl.common.copy_messages import PartFound
from ipexctl.errors import HostFailed, InputError
from ipexctl.remote.checkpoints import checkpoint_rules as rules
from ipexctl.run.outcome import listed_checkpoints as listed
from ipexctl.run.plan.checkpoint_options import (
    describe_one_checkpoint,
    patterns_of,
    resume_words,
)

THREE = ["a", "b", "c"]
MIB = 1 << 20


@pytest.mark.parametrize(
    ("hosts", "host", "expected"),
    [(THREE, "a", "b"), (THREE, "c", "a"), (["a", "b"], "b", "a"), (["a"], "a", None)],
)
def test_the_partner_is_the_next_host(hosts, host, expected):
    assert rules.choose_copy_host(hosts, host) == expected


def test_a_host_that_is_not_fit_to_keep_copies_is_a_partner_only_where_none_is():
    assert rules.choose_copy_host(THREE, "a", {"b"}) == "c"
    assert rules.choose_copy_host(THREE, "a", {"b", "c"}) == "b"


def test_a_copy_is_on_a_host_of_another_group_where_there_is_one():
    groups = {"a": ["all", "rack1"], "b": ["all", "rack1"], "c": ["all", "rack2"]}
    assert rules.choose_copy_host(THREE, "a", (), groups) == "c"
    assert rules.choose_copy_host(THREE, "c", (), groups) == "a"
    assert rules.choose_copy_host(THREE, "a", {"c"}, groups) == "b"  # better than on one host alone
    assert rules.choose_copy_host(THREE, "a", (), {"a": ["x"], "b": ["x"], "c": ["x"]}) == "b"


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("out/checkpoint-200", 200),
        ("out/epoch=3-step=500.ckpt", 500),
        ("ckpt/step_40/model.pt", 40),
        ("runs/2/last.ckpt", 2),
        ("model.pt", None),
        ("out/step-7-loss0.25.pt", 7),
    ],
)
def test_the_step_is_in_the_name(name, step):
    assert checkpoint_names.step_of(name) == step


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ([(["model.pt"], [])], []),
        ([(["__0_0.distcp"], [])], [".metadata"]),
        ([(["__0_0.distcp", ".metadata"], ["__0_0.distcp", "__1_0.distcp"])], ["__1_0.distcp"]),
        (
            [
                (["__0_0.distcp", ".metadata"], ["__0_0.distcp", "__1_0.distcp"]),
                (["__1_0.distcp"], []),
            ],
            [],
        ),
        ([(["model/__0_0.distcp"], [])], ["model/.metadata"]),
        ([(["rng_state_1.pth"], [])], ["trainer_state.json"]),
        ([(["rng_state_1.pth"], []), (["training_args.bin", "trainer_state.json"], [])], []),
        ([(["random_states_1.pkl"], [])], ["random_states_0.pkl"]),
    ],
)
def test_parts_lack_what_none_of_them_has(parts, missing):
    assert (
        rules.list_missing_files(
            [PartFound("c-1", "", names, needs, 0.0) for names, needs in parts]
        )
        == missing
    )


@pytest.mark.parametrize(
    ("free", "total", "size", "room"),
    [
        (3 << 30, 10 << 30, 1 << 30, True),
        (2 << 30, 10 << 30, (1 << 30) + 1, False),  # less than 1 GB would stay
        (6 << 30, 80 << 30, (2 << 30) + 1, False),  # less than 5 %
        (6 << 30, 80 << 30, 2 << 30, True),
        (6 << 30, 1000 << 30, (1 << 30) + 1, False),  # less than 5 GB
        (6 << 30, 1000 << 30, 1 << 30, True),
    ],
)
def test_a_disk_keeps_room(free, total, size, room):
    assert rules.has_room(free, total, size) is room


# --- as the hosts report them --------------------------------------------------------------------


def manifest(number: int, name: str, parts: dict[str, str]) -> dict:
    rows = {host: {"sha": sha, "list": 9, "bytes": MIB} for host, sha in parts.items()}
    step = checkpoint_names.step_of(name)
    return {"number": number, "name": name, "step": step, "parts": rows, "age": 5.0}


def on_host(
    target: str,
    manifests: list,
    held: list[str],
    pending: list = [],  # noqa: B006
) -> listed.HeldCopies:
    row = {"host": target, "manifests": manifests, "held": held, "pending": pending}
    (found,) = listed.read_on_host(target, Answer(target, {"reports": [row]}))
    return found


ONE, TWO = manifest(1, "out/c-1", {"a": "s1"}), manifest(2, "out/c-2", {"a": "s2", "b": "s3"})


def test_a_checkpoint_is_complete_where_every_part_is_on_a_host_that_answers():
    found = listed.merge_checkpoints([on_host("b", [ONE, TWO], ["s1", "s2", "s3"])], alive=True)
    assert [(c.name, c.is_complete, c.hosts) for c in found] == [
        ("out/c-2", True, ("b",)),
        ("out/c-1", True, ("b",)),
    ]
    found = listed.merge_checkpoints([on_host("b", [ONE, TWO], ["s1", "s3"])], alive=True)
    assert [(c.name, c.is_complete) for c in found] == [("out/c-2", False), ("out/c-1", True)]
    assert listed.choose_checkpoint(found, "last", "R").name == "out/c-1"


def test_the_last_complete_one_is_chosen_and_what_is_newer_is_told():
    pending = [["out/c-3", 3, MIB, 1.0, "it is being written"]]
    found = listed.merge_checkpoints(
        [on_host("a", [ONE, TWO], ["s1", "s2", "s3"], pending)], alive=False
    )
    last = listed.choose_checkpoint(found, "last", "R")
    assert (last.name, last.step) == ("out/c-2", 2)
    assert [c.name for c in found] == ["out/c-3", "out/c-2", "out/c-1"]
    rows = [[f"out/c-{n}", n, MIB, 100.0 - n, "it is being written"] for n in (80, 100, 90)]
    later = listed.merge_checkpoints([on_host("a", [ONE], ["s1"], rows)], alive=True)
    assert [c.step for c in later] == [100, 90, 80, 1]
    for name in ("out/c-1", "c-1", "1"):
        assert listed.choose_checkpoint(found, name, "R").name == "out/c-1"
    with pytest.raises(InputError) as e:
        listed.choose_checkpoint(found, "c-3", "R")
    assert e.value.slug == "checkpoint-not-found"


def test_patterns_stay_below_the_folder_of_the_ranks():
    assert patterns_of("out/*, ckpt/**/c-*") == ("out/*", "ckpt/**/c-*")
    for text in ("/out/*", "../x", "out/../../x", "~/x"):
        with pytest.raises(InputError) as e:
            patterns_of(text)
        assert e.value.slug == "checkpoint-pattern-outside"


def test_resume_arguments():
    text = "--resume_from_checkpoint {checkpoint} 'a b'"
    assert resume_words(text, "/w/c") == ("--resume_from_checkpoint", "/w/c", "a b")
    assert resume_words(text, "") == ()
    for text in ("'", "--resume", "--resume {ckpt}"):
        with pytest.raises(InputError) as e:
            resume_words(text, "/w/c")
        assert e.value.slug == "resume-arg-invalid"


@pytest.mark.parametrize(
    "bent", [{"number": "x"}, {"age": None}, {"parts": []}, {"parts": {"h": 3}}, {"number": None}]
)
def test_a_manifest_that_is_none_is_an_odd_answer_of_its_host(bent):
    one = {"name": "c-1", "number": 1, "age": 1.0, "parts": {}}
    on_host("a", [one], [])
    with pytest.raises(HostFailed) as e:
        on_host("a", [{**one, **bent}], [])
    assert e.value.slug == "agent-reply-invalid"


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("out/model.pt,out/optim.pt", "out/model.pt and out/optim.pt are taken together"),
        ("a.pt,b.pt,c.pt", "a.pt, b.pt and c.pt are taken together"),
        ("out/model.pt", ""), ("out/*.pt,out/model.pt", ""), ("ck-1,ck-2", ""), ("", ""),
    ],
)  # fmt: skip
def test_plain_names_that_are_one_checkpoint_are_named_before_the_run(
    text: str, described: str
) -> None:
    assert describe_one_checkpoint(text).partition(" as one")[0] == described
