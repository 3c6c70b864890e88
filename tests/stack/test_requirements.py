"""Requirements files and pyproject.toml as values."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ipexctl.errors import InputError
from ipexctl.stack.requirements import Extra, Read, not_allowed, read_requirements

A, B = "a" * 64, "b" * 64
ENVIRON = {"TOKEN": "s3cret", "HERE": "/srv", "UNSET": ""}


def files(texts: Mapping[str, str]) -> Read:
    return lambda name, asker: (texts[name], name)


READ = {
    "names, versions, markers and extras": (
        {"r.txt": "accelerate >= 1.0\n# no\n\nbar[audio]==2.1  # why\nfoo; python_version<'4'"},
        Extra(("accelerate>=1.0", "bar[audio]==2.1", 'foo; python_version < "4"')),
    ),
    "lines that go on, with hashes": (
        {"r.txt": f"foo==1 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\nbar"},
        Extra(("bar", "foo==1"), hashes={"foo": frozenset({A, B})}),
    ),
    "files that name others": (
        {"r.txt": "-r more.txt\n-c limits.txt\n", "more.txt": "foo", "limits.txt": "bar<2\n-r l2",
         "l2": "baz<3"},
        Extra(("foo",), ("bar<2", "baz<3")),
    ),
    "a file that names itself": ({"r.txt": "-r r.txt\nfoo"}, Extra(("foo",))),
    "where packages come from": (
        {"d/r.txt": "-i https://i.invalid\n--extra-index-url=https://e.invalid\n-f wheels\nfoo"},
        Extra(("foo",), index_url="https://i.invalid", extra=("https://e.invalid",),
              find_links=("d/wheels",)),
    ),
    "a project's own dependencies": (
        {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["foo>1", "bar"]'},
        Extra(("bar", "foo>1")),
    ),
    "variables in addresses, and nowhere else": (
        {"d/r.txt": "-i https://me:${TOKEN}@i.invalid\n-f ${HERE}/w\n-f ${UNSET}/w\n-f $HERE\n"
         "foo===${TOKEN}"},
        Extra(("foo===${TOKEN}",), index_url="https://me:s3cret@i.invalid",
              find_links=("/srv/w", "d/${UNSET}/w", "d/$HERE")),
    ),
    "already so": ({"r.txt": "--only-binary :all:\n--require-hashes\nfoo"}, Extra(("foo",))),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_is_read(case: str) -> None:
    texts, expected = READ[case]
    assert read_requirements([next(iter(texts))], files(texts), ENVIRON) == expected


REFUSED = [
    ({"r.txt": "foo\n-e ../other\n"}, "r.txt:2: -e is not supported in requirements files"),
    ({"r.txt": "-e file:///a/b[c]"}, "r.txt:1: -e is not supported in requirements files"),
    ({"r.txt": "./wheels/foo-1-py3-none-any.whl"}, "r.txt:1: './wheels/foo"),
    ({"r.txt": "git+https://git.invalid/foo"}, "r.txt:1: 'git+https"),
    ({"r.txt": "foo @ https://files.invalid/foo.whl"}, "is a path or URL, not a package name"),
    ({"r.txt": "# one\nfoo=1"}, "r.txt:2: 'foo=1' is not a requirement"),
    ({"r.txt": "foo; sys_platform ~= 'linux'"}, "r.txt:1: \"foo; sys_platform ~= 'linux'\" is no"),
    ({"r.txt": "--pre\nfoo"}, "r.txt:1: --pre is not supported in requirements files"),
    ({"pyproject.toml": "[tool.poetry]"}, "has no list of dependencies under"),
    ({"pyproject.toml": "[project"}, "pyproject.toml: invalid TOML"),
    ({"pyproject.toml": "a = " + "[" * 3000}, "pyproject.toml: invalid TOML"),
    ({"r.txt": "foo; " + "(" * 3000}, "r.txt:1: 'foo; (((("),
]


@pytest.mark.parametrize(
    "line", ["-e libs/shared[all]", "./libs/shared", "--editable=./libs/shared/"]
)
def test_a_second_project_is_refused_with_what_does_the_same(line: str) -> None:
    with pytest.raises(InputError, match="^r.txt:1: ") as e:
        read_requirements(["r.txt"], files({"r.txt": line}), {})
    needs = e.value.hint.splitlines()[1].replace("LOCATION", "libs/shared")
    texts = {"r.txt": needs, "libs/shared/pyproject.toml": "[project]\ndependencies = ['foo']"}
    assert read_requirements(["r.txt"], files(texts), {}).requirements == ("foo",)


def test_files_that_are_named_again_and_again_are_read_once() -> None:
    texts = {f"{n}.txt": f"-r {n + 1}.txt\n-r {n + 1}.txt" for n in range(15)} | {"15.txt": "foo"}
    asked: list[str] = []

    def reader(name: str, asker: str) -> tuple[str, str]:
        asked.append(name)
        return texts[name], name

    assert read_requirements(["0.txt"], reader, {}) == Extra(("foo",))
    assert len(asked) == 31


@pytest.mark.parametrize(("texts", "what"), REFUSED)
def test_what_cannot_be_locked_is_refused_with_its_place(texts: dict[str, str], what: str) -> None:
    with pytest.raises(InputError) as refused:
        read_requirements([next(iter(texts))], files(texts), ENVIRON)
    assert what in refused.value.what


def test_only_hashes_that_the_file_allows_are_taken() -> None:
    extra = Extra(("foo==1",), hashes={"foo": frozenset({A})})
    assert not_allowed(extra, {"foo": A, "bar": B}) == ""
    assert not_allowed(extra, {"foo": B}) == "foo"
    assert not_allowed(extra, {"bar": B}) == ""  # a marker has left it out
