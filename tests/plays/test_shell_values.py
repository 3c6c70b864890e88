"""Values in shell code: a real /bin/sh prints exactly the value, and runs no part of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.command_steps import Sh
from ipexctl.play.text.interpolation import PREFIX, Scope, for_shell

# What prints the value of ${v} and one NUL after it.
CONTEXTS = {
    "bare": "printf '%s\\0' ${v}",
    "bare, quotes around it": "printf '%s\\0' \"a\"${v}'b' | sed -z 's/^a//; s/b$//'",
    "double quotes": 'printf "%s\\0" "${v}"',
    "single quotes": "printf '%s\\0' '${v}'",
    "single in double quotes": "printf '%s\\0' \"'${v}'\" | sed -z \"s/^'//; s/'\\$//\"",
    "an escaped quote before it": "printf '%s\\0' \\'${v} | sed -z \"s/^'//\"",
    "an escaped quote in double quotes": "printf '%s\\0' \"\\\"${v}\" | sed -z 's/^\"//'",
    "after a comment with an apostrophe": "true # it's ${v} isn't it\nprintf '%s\\0' ${v}",
    "after # in a word": "printf '%s\\0' a#b'' >/dev/null; printf '%s\\0' '${v}'",
    "an assignment": "x=${v}; printf '%s\\0' \"$x\"",
    "command substitution": "x=$(printf '%s.' ${v}); printf '%s\\0' \"${x%.}\"".replace(
        "${x", "$${x"
    ),
    "a default": "unset x; printf '%s\\0' $${x:-${v}}",
    "a default in double quotes": "unset x; printf '%s\\0' \"$${x:-${v}}\"",
    "a case": "case ${v} in 'a)') ;; esac; case x in y) ;; x) printf '%s\\0' ${v};; esac",
    "a function and a subshell": "f() { (printf '%s\\0' \"$1\") }\nf ${v}",
}
# Where a regular expression cannot tell the quotes around the value.
UNCERTAIN = {
    "a here-document": "{ cat <<EOF; printf '\\0'; } | sed -z 's/\\n$//'\n${v}\nEOF",
    "a quoted here-document": "{ cat <<'E'; printf '\\0'; } | sed -z 's/\\n$//'\n${v}\nE",
    "substitution in double quotes": 'x="$(printf \'%s.\' "${v}")"; printf \'%s\\0\' "$${x%.}"',
    "after it": 'x="$(echo "a")"; printf \'%s\\0\' ${v}',
    "backticks": "printf '%s\\0' `echo ${v}`",
    "arithmetic": "printf '%s\\0' $((${v}))",
    "arithmetic in double quotes": "printf '%s\\0' \"$(( (2) * (${v}) / 2 ))\"",
    "two subshells": "((printf '%s\\0' ${v}) )",
}
SHELLS = [["/bin/sh"], ["bash", "--posix"]] if shutil.which("bash") else [["/bin/sh"]]
NASTY = (
    "", " ", "*", "a  b", "-n", "\\", "\\n", "'", '"', "a'b\"c", "$HOME", "${v}", "$$", "`id>x`",
    "$(id >x)", "'; id >x; '", '"; id >x; "', "'$(id >x)'", "\nEOF\nid >x\n", "a\nb", "end\n", "#",
    "!!", "a[$(id >x)]", "~", "%s", "\x01\x7f", "é€", "\r", "}", ")", "$(", "\udcff",
)  # fmt: skip
VALUES = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
) | st.lists(st.sampled_from(NASTY), max_size=4).map("".join)  # fmt: skip


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=VALUES)
@example(value="'\"`$(id >x)`\\\n*  ?\n")
@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: str(shell[0]))
def test_a_shell_prints_exactly_the_value(shell: list[str], value: str, tmp_path: Path) -> None:
    """All contexts in one text: none may change how the next one is read."""
    found = for_shell("\n".join(CONTEXTS.values()), Scope({"v": value}))
    assert found
    done = subprocess.run(
        [*shell, "-c", found[0]], cwd=tmp_path, env={**os.environ, **found[1]}, check=False,
        stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    printed = done.stdout.split(b"\0")[:-1]
    assert dict(zip(CONTEXTS, printed, strict=True)) == dict.fromkeys(CONTEXTS, os.fsencode(value))
    assert done.stderr == b""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("context", CONTEXTS)
def test_each_context_alone(context: str, tmp_path: Path) -> None:
    value = 'it\'s "$(id >x)" `id >x` \\ * '
    found = for_shell(CONTEXTS[context], Scope({"v": value}))
    assert found
    for shell in SHELLS:
        done = subprocess.run(
            [*shell, "-c", found[0]], cwd=tmp_path, env={**os.environ, **found[1]}, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == (f"{value}\0", "")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("context", UNCERTAIN)
def test_a_plain_word_may_stand_where_other_values_are_refused(context: str) -> None:
    text = UNCERTAIN[context]
    found = for_shell(text, Scope({"v": "-41"}))
    assert found
    done = subprocess.run(
        ["/bin/sh", "-c", found[0]], env={**os.environ, **found[1]}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("-41\0", "")
    for value in ("a[$(id)]", "a b", "", "a=b", "'", "\n"):
        with pytest.raises(Bad, match=r"^\$\{v\} cannot be used here: its value is not") as e:
            for_shell(text, Scope({"v": value}))
        assert e.value.at == text.index("${v}")


def test_a_secret_does_not_become_a_part_of_the_code() -> None:
    """Other users of a host can read that."""
    scope = Scope({"secret.T": "abc", "copied": "xabc"})
    for name in scope.values:
        found = for_shell(f"echo ${{{name}}}", scope)
        assert found
        assert "abc" not in found[0]
        with pytest.raises(Bad, match="cannot be used here"):
            for_shell(f"echo `echo ${{{name}}}`", scope)


@pytest.mark.parametrize("text", ["echo \\${v}", 'echo "\\${v}"'])
def test_a_backslash_does_not_make_it_the_shells_own(text: str) -> None:
    with pytest.raises(Bad, match="cannot be used after a backslash"):
        for_shell(text, Scope({"v": "a"}))


def test_names_of_two_kinds_do_not_meet() -> None:
    values = {"fact.isa": "1", "fact_isa": "2", "fact__isa": "3", "é": "4", "ü": "5"}
    text = " ".join(f"${{{name}}}" for name in values)
    found = for_shell(text, Scope(values))
    assert found
    assert sorted(found[1].values()) == ["1", "2", "3", "4", "5"]
    assert all(name.isascii() and name.startswith(PREFIX) for name in found[1])


@pytest.mark.parametrize("text", ["a", "$HOME $1 $$ $(id)", "it's", "echo $${HOME}", "`id`"])
def test_text_without_names_stays(text: str) -> None:
    assert for_shell(text, Scope({})) == (text.replace("$${", "${"), {})


def test_a_program_may_give_shell_code_as_plain_text() -> None:
    Sh("exit 3").check()  # type: ignore[arg-type]
    with pytest.raises(Bad, match="is larger than"):
        Sh("x" * (1 << 20)).check()  # type: ignore[arg-type]
