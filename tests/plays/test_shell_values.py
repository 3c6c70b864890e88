"""Values in shell code: a real /bin/sh prints exactly the value, and runs no part of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.sh_step import Sh
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
    "a here-document": "{ cat <<EOF; printf '\\0'; } | sed -z 's/\\n$//'\n${v}\nEOF",
    "a here-document with quotes": (
        "{ cat <<EOF; printf '\\0'; } | sed -z \"s/^it's \\\"//; s/\\n$//\"\nit's \"${v}\nEOF"
    ),
    "after two here-documents": (
        "cat <<A >/dev/null; cat <<-'B' >/dev/null\nit's\nA\n\t\"$(\n\tB\nprintf '%s\\0' '${v}'"
    ),
    "an assignment": "x=${v}; printf '%s\\0' \"$x\"",
    "command substitution": "x=$(printf '%s.' ${v}); printf '%s\\0' \"${x%.}\"".replace(
        "${x", "$${x"
    ),
    "command substitution in double quotes": (
        "x=\"$(printf '%s.' '${v}')\"; printf '%s\\0' \"$${x%.}\""
    ),
    "nested substitution": (
        'x="$(printf \'%s.\' "$(printf \'%s.\' "${v}" # it\'s\n)")"\nprintf \'%s\\0\' "$${x%..}"'
    ),
    "a default": "unset x; printf '%s\\0' $${x:-${v}}",
    "a default in double quotes": "unset x; printf '%s\\0' \"$${x:-${v}}\"",
    "a case": "case ${v} in 'a)') ;; esac; case x in y) ;; x) printf '%s\\0' ${v};; esac",
    "a pattern in double quotes": "x=${v}; printf '%s\\0' \"$${x#${v}}${v}\"",
    "a function and a subshell": "f() { (printf '%s\\0' \"$1\") }\nf ${v}",
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo `echo ${v}`", "${v} cannot be used in backticks"),
        ("echo $'a${v}'", "${v} cannot be used in $'...'"),
        ("echo $'it\\'s' ${v}", "${v} cannot be used after \\' in $'...', which shells read"),
        (
            "cat <<'EOF'\n${v}\nEOF",
            "${v} cannot be used in a here-document with a quoted delimiter, where the shell expan",
        ),
        ("cat <<\\EOF\n${v}\nEOF", "${v} cannot be used in a here-document with a quoted"),
        ("echo \\${v}", "${v} cannot be used after a backslash"),
        ("echo \"\\${v}\"", "${v} cannot be used after a backslash"),
        ("echo \"$${x:-'a'}\" ${v}", "${v} cannot be used after ' in \"${ }\", which"),
        ("x=$(case a in a) echo;; esac) ${v}", "${v} cannot be used after case in $( ), which"),
        ("echo $((1 + ${v}))", "${v} is used in $(( )), but its value 'a[$(id)]' is not"),
        ("echo \"$(( (2) * (${v}) ))\"", "${v} is used in $(( )), but its value 'a[$(id)]'"),
    ],
)  # fmt: skip
def test_where_no_value_can_stand(text: str, said: str) -> None:
    with pytest.raises(Bad) as e:
        for_shell(text, Scope({"v": "a[$(id)]"}))
    assert e.value.what.startswith(said)
    assert e.value.at == text.index("${v}")


def test_a_number_counts_in_arithmetic() -> None:
    found = for_shell("echo $(( (${v}) + 1 )) '${v}'", Scope({"v": "-41"}))
    assert found
    done = subprocess.run(
        ["/bin/sh", "-c", found[0]], env={**os.environ, **found[1]}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "-40 -41\n"


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
