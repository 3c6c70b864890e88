"""What is typed after `ipexctl play`, on this machine."""

from pathlib import Path

import pytest

from tests.plays.play_here import run, steps

TWO = """\
vars: {batch: '1', threads: '2'}
steps:
  - sh: echo ${batch} ${threads}
    when: {isa: [sse, avx, avx2, avx512, avx512-bf16, amx, neon, sve]}
handlers:
  restart app: [{sh: echo restarted}]
"""


@pytest.mark.parametrize(
    ("typed", "slug", "said"),
    [
        ("bacth=1", "variable-unread", "'batch'"),
        ("echo=1", "variable-unread", "-e echo: "),  # a word of the play, but not a variable
        ("isa=amx", "variable-is-fact", "-e isa: "),
        ("host=x", "variable-is-fact", "-e host: "),
        ("batch=1 threads=2", "variable-syntax", "-e batch=... -e threads=2"),
        ("@vars.yaml", "variable-syntax", "@vars.yaml"),
    ],
)
def test_variables_that_would_change_nothing_are_refused(
    tmp_path: Path, typed: str, slug: str, said: str
):
    done = run(tmp_path, TWO, "-e", typed)
    assert (done.returncode, done.slug, done.stdout) == (2, slug, "")
    assert said in done.stderr


def test_a_value_may_have_spaces_and_equal_signs(tmp_path: Path):
    assert steps(tmp_path, TWO, "-e", "batch=a b=c")[0]["state"] == "changed"


def test_list_steps_names_handlers_and_follows_the_tags(tmp_path: Path):
    text = "steps:\n  - {sh: a, tags: x}\n  - {sh: b, tags: y}\nhandlers: {again: [{sh: c}]}\n"
    done = run(tmp_path, text, "--list-steps", "-t", "y")
    assert done.stdout.splitlines()[1:] == ["  2  sh           [y]", "handler again:", "  3  sh"]


def test_a_variable_that_begins_as_a_fact_can_be_given(tmp_path: Path):
    text = "vars: {user: '${fact.user}'}\nsteps: [{sh: 'echo ${user} > ~/who'}]\n"
    assert steps(tmp_path, text, "-e", "user=ann")[0]["state"] == "changed"
    assert (tmp_path / "who").read_text() == "ann\n"


def test_short_options_as_ansible_has_them(tmp_path: Path):
    text = "steps: [{file: {path: ~/x, content: 'new'}}]\n"
    done = run(tmp_path, text, "-CD")
    assert done.returncode == 10 and "+new" in done.stdout
    assert not (tmp_path / "x").exists()


def test_a_file_that_is_not_there_is_an_error_before_anything_is_done(tmp_path: Path):
    text = "steps:\n  - sh: echo done > ~/done\n  - copy: {src: nowhere, dest: ~/copied}\n"
    done = run(tmp_path, text)
    assert (done.returncode, done.slug) == (2, "local-file-missing")
    assert "play.yaml:3:5: copy: src: " in done.stderr
    assert not (tmp_path / "done").exists()


def test_a_check_foresees_files_that_may_not_be_written(tmp_path: Path):
    (tmp_path / "closed").mkdir(mode=0o555)
    text = """\
steps:
  - file: {path: ~/new, state: directory}
  - file: {path: ~/new/a, content: "x\\n"}
  - line: {path: ~/new/a, line: y}
  - file: {path: ~/nowhere/a, content: x}
"""
    found = steps(tmp_path, text, "--check", "--diff")
    states = [step["state"] for step in found]
    assert states == ["would change", "would change", "unknown", "failed"]
    assert "+x" in found[1]["diff"]
    assert [step.get("slug") for step in found[2:]] == [None, "path-missing"]


def test_a_template_is_read_before_anything_is_done(tmp_path: Path):
    text = "steps:\n  - sh: touch ~/done\n  - copy: {src: x, dest: ~/y, template: true}\n"
    for content, line in ((b"a\n  b ${prot}\n", "x:2:5: "), (b"\xff\n", "")):
        (tmp_path / "x").write_bytes(content)
        done = run(tmp_path, text)
        assert (done.returncode, line in done.stderr) == (2, True)
    assert not (tmp_path / "done").exists()
    (tmp_path / "x").write_text("${port}\n")
    assert run(tmp_path, text, "-e", "port=1").returncode == 0
    assert (tmp_path / "y").read_text() == "1\n"
