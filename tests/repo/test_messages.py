"""Both sides have every field of a message: it is made by one, and the other reads it."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.common import (
    attempt_record,
    blob_answers,
    boot_answers,
    checkpoint_reports,
    control_questions,
    copy_messages,
    env_answers,
    exchange_report,
    folder_answers,
    hub_orders,
    install_answers,
    journal_records,
    keeper_messages,
    play_messages,
    port_answers,
    rank_looks,
    rank_paces,
    reach_answers,
    removal_answers,
    restart_plan,
    result_answers,
    run_about,
    run_answers,
    run_events,
    run_inputs,
    run_orders,
    shown_plans,
    speed_answers,
    supervisor_messages,
    supervisor_state,
    watch_orders,
    wrapper_messages,
)
from ipexctl.common.message import PLAIN, Message, Variant, kinds, reader_of, split_outside_brackets
from ipexctl.errors import HostFailed
from ipexctl.remote.checkpoints.copy_worker import Worker
from ipexctl.remote.checkpoints.publication import Publication
from ipexctl.remote.hub.judge import Judge
from ipexctl.remote.run_files import journal
from tests.speed.test_compress import orders
from tools.message_page import kinds_in

COMMON = Path(run_events.__file__).parent

ROOT = Path(__file__).parents[2]
MODULES = (
    run_orders, watch_orders, run_events, hub_orders, checkpoint_reports, restart_plan,
    keeper_messages, attempt_record, copy_messages, exchange_report, journal_records,
    supervisor_messages, run_answers, result_answers,
    control_questions, blob_answers, port_answers, env_answers, install_answers,
    folder_answers, removal_answers, boot_answers, play_messages, reach_answers, speed_answers,
    run_about, rank_paces, rank_looks, supervisor_state,
    run_inputs, shown_plans, wrapper_messages,
)  # fmt: skip
KINDS = [kind for module in MODULES for kind in kinds_in(module) if kind.__match_args__]
FAMILIES = [kind for module in MODULES for kind in kinds_in(module) if Variant in kind.__bases__]
VARIANTS = [(family, kind) for family in FAMILIES for kind in family.variants.values()]


def names_read() -> set[str]:
    """What some module of the product reads, as an attribute, an item or by its position."""
    found = set[str]()
    for path in (ROOT / "ipexctl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                found.add(str(node.slice.value))
            elif isinstance(node, ast.MatchClass):
                kind = getattr(node.cls, "attr", getattr(node.cls, "id", ""))
                names = next((k.__match_args__ for k in KINDS if k.__name__ == kind), ())
                found |= {*names[: len(node.patterns)], *node.kwd_attrs}
    return found


READ = names_read()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_message_is_read(kind: type[Message]) -> None:
    assert [name for name in kind.__match_args__ if name not in READ] == []


def test_each_field_of_an_order_is_an_option_or_given() -> None:
    order = orders(timeout=9.0, stall_action="stop", ports=(4000, 4100), lives_on=True)
    assert order.run is not None
    later = {"host", "root", "spare", "returned", "woken"}  # for one host, or for a keeper
    later |= {"checkpoint_gap"}  # keepers know it from earlier attempts
    assert set(order.__match_args__) - vars(order).keys() == later
    assert set(order.run.__match_args__) == vars(order.run).keys()
    assert (order.run.timeout, order.run.stall_action, order.run.lives_on) == (9.0, "stop", True)
    sent = json.loads(json.dumps(order.document()))
    assert type(order).read(sent) == order, "an option and its field have one type"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("hub_orders.Look()", 'Missing positional argument "number"'),
        ("hub_orders.Look(1, why='x')", 'Unexpected keyword argument "why"'),
        ("hub_orders.Look('1')", 'incompatible type "str"; expected "int"'),
        ("hub_orders.Look(1).why", '"Look" has no attribute "why"'),
    ],
)
def test_a_field_that_one_side_lacks_is_an_error_of_mypy(tmp_path: Path, code, said) -> None:
    script = tmp_path / "one_side.py"
    script.write_text(f"from ipexctl.common import hub_orders\n\n{code}\n")
    words = ("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"))
    cache = ("--cache-dir", str(tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, *words, *cache, str(script)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and said in done.stdout, done.stdout + done.stderr


def test_a_message_without_a_field_is_not_made_and_not_read() -> None:
    with pytest.raises(TypeError, match="Look: number"):
        hub_orders.HostOrder.read({"kind": "Look"})
    with pytest.raises(TypeError, match="Look: why"):
        hub_orders.Look(1, why="x")  # type: ignore[call-arg]


def test_messages_in_messages_are_read_and_written() -> None:
    end = run_events.RankExited(2, run_events.Exit(1, hints=("oom",)), "text")
    document = end.document()
    assert document["ended"] == {"code": 1, "hints": ["oom"]}
    read = run_events.Event.read(document)
    assert isinstance(read, run_events.RankExited) and read.ended.code == 1
    host = run_orders.HostOfRun("a", "a", "/p", "e", "/p/bin", [0, 1], [], "a")
    order = run_orders.HubOrder([host], [], None, None, 45.0, "note", 10.0, False, "a")
    assert run_orders.HubOrder.read(order.document()) == order


def sample(type_: str, within: frozenset[str] = frozenset()) -> Any:
    """A value of an annotated type, as JSON has it. `within`: the messages that it is in."""
    kind, _, inner = split_outside_brackets(type_, "|")[0].partition("[")
    inner_types = split_outside_brackets(inner[:-1], ",")
    if kind in kinds:
        is_family = kinds[kind] in FAMILIES
        one = next(iter(kinds[kind].variants.values())) if is_family else kinds[kind]
        return made(one, within=within)
    if kind in ("list", "tuple"):
        items = [sample(part, within) for part in inner_types if part not in {"...", *within}]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {"2" if inner_types[0] == "int" else "a": sample(inner_types[1], within)}
    of_type: dict[str, object] = {"int": 3, "Signed": -3, "float": 1.5, "bool": True}
    of_type |= {"Port": 3, "ExitCode": 3, "AbsolutePath": "/x", "EnvKey": "0123456789abcdef"}
    of_type |= {"Document": {"a": [None]}}
    return of_type.get(kind, "x")


def made(
    kind: type[Message],
    is_needed: Callable[[str], bool] = lambda name: True,
    within: frozenset[str] = frozenset(),
) -> Any:
    names = [name for name in kind._names if is_needed(name)]
    within |= {kind.__name__}
    return kind(**{name: sample(kind._types[name], within) for name in names})


def test_the_wrapper_of_a_rank_makes_and_reads_what_is_declared() -> None:
    """It has no time to import the declarations."""
    path = ROOT / "ipexctl/remote/rank/rank_wrapper.py"
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    named = {node.value for node in nodes if isinstance(node, ast.Constant)}
    made_here = {}
    for node in nodes:
        keys = [getattr(k, "value", "") for k in node.keys] if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Dict) and "kind" in keys:
            made_here[ast.literal_eval(node.values[keys.index("kind")])] = {*keys} - {"kind"}
    said, heard = (wrapper_messages.WrapperMessage, wrapper_messages.WrapperOrder)
    assert made_here == {name: kind._fields for name, kind in said.variants.items()}
    fields = {name for kind in heard.variants.values() for name in kind._fields}
    assert fields <= named and named & {*heard.variants} == {
        "AskRefused",
        "EndNoted",
        "SignalScript",
    }


def of_variants(test: Callable[..., None]) -> Callable[..., None]:
    ids = [kind.__name__ for _, kind in VARIANTS]
    return pytest.mark.parametrize(("family", "kind"), VARIANTS, ids=ids)(test)


def of_families(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("family", FAMILIES, ids=lambda kind: kind.__name__)(test)


@of_variants
def test_a_message_of_a_family_is_read_back_from_its_document(
    family: type[Variant], kind: type[Variant]
) -> None:
    for message in (made(kind), made(kind, lambda name: not hasattr(kind, name))):
        document = json.loads(json.dumps(message.document()))
        assert document["kind"] == kind.__name__
        for reader in (family, kind):
            read = reader.read({**document, "later": 1})
            assert (type(read), read) == (kind, message)
    assert {"kind", "later"}.isdisjoint(kind._names), "the name of the class is there"


@of_families
def test_each_message_of_a_family_is_declared_with_it(family: type[Variant]) -> None:
    module = sys.modules[family.__module__]
    assert [*family.variants.values()] == family.__subclasses__() and family.variants
    assert {*family.__subclasses__()} <= {*kinds_in(module)} and not family._names


OTHER_KINDS = {kind.__name__: made(kind).document() for _, kind in VARIANTS}
NO_KINDS: list[Any] = [
    {}, {"kind": "Later"}, {"kind": None}, {"kind": 7}, {"kind": []}, {"kind": {}}, {"kind": ""},
    None, 7, "Ping", [], [{"kind": "Ping"}],
]  # fmt: skip


@of_families
def test_a_document_of_another_kind_is_refused_with_the_name_of_the_family(
    family: type[Variant],
) -> None:
    first = made(next(iter(family.variants.values()))).document()
    others = [doc for name, doc in OTHER_KINDS.items() if name not in family.variants]
    odd = [{**first, **doc} if isinstance(doc, dict) else doc for doc in NO_KINDS[1:]]
    nameless = {name: value for name, value in first.items() if name != "kind"}
    itself = {**first, "kind": family.__name__}
    assert len(others) + len(family.variants) == len(OTHER_KINDS)
    for document in (nameless, itself, *NO_KINDS, *odd, *others):
        with pytest.raises(TypeError, match=f"^{family.__name__}: not a message of it: "):
            family.read(document)
        assert not isinstance(document, dict) or family.kind_of(document) is None


@of_variants
def test_a_message_is_not_read_as_another_one_of_its_family(
    family: type[Variant], kind: type[Variant]
) -> None:
    for other in family.variants.values():
        if other is not kind:
            with pytest.raises(TypeError, match=f"^{other.__name__}: not a message of it: "):
                other.read(made(kind).document())


@of_variants
def test_a_message_without_what_it_must_have_is_not_read(
    family: type[Variant], kind: type[Variant]
) -> None:
    whole = made(kind).document()
    for name in kind._names:
        rest = {key: value for key, value in whole.items() if key != name}
        if hasattr(kind, name):
            assert getattr(family.read(rest), name) == getattr(kind, name)
            continue
        with pytest.raises(TypeError, match=f"^{kind.__name__}: {name}$"):
            family.read(rest)


def test_what_holds_a_message_of_a_family_takes_no_other_one() -> None:
    order = copy_messages.SeekPart("a")
    document = hub_orders.TellCopier(order).document()
    assert document == {"kind": "TellCopier", "order": {"kind": "SeekPart", "name": "a"}}
    assert hub_orders.HostOrder.read(document) == hub_orders.TellCopier(order)
    for inner in (
        None,
        7,
        [],
        "SeekPart",
        {"name": "a"},
        made(copy_messages.PartAbsent).document(),
    ):
        with pytest.raises(TypeError, match="^CopyOrder: "):
            hub_orders.HostOrder.read({**document, "order": inner})
    for inner in (hub_orders.Look(1), copy_messages.PartAbsent("a"), copy_messages.SeekPart(7)):  # type: ignore[arg-type]
        odd = hub_orders.TellCopier(inner)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"^CopyOrder: not a message of it|^SeekPart.name: 7$"):
            hub_orders.HostOrder.read(odd.document())


def test_a_message_in_a_message_is_there_unless_it_may_be_none() -> None:
    reported = {"kind": "HostReported"}
    for odd in (None, 7, [], "", "x"):
        with pytest.raises(TypeError, match="^HostReport: not an object: "):
            keeper_messages.KeeperMessage.read({**reported, "report": odd})
    read = keeper_messages.KeeperMessage.read({**reported, "report": {"over": None}})
    assert isinstance(read, keeper_messages.HostReported) and read.report.over is None
    entry = keeper_messages.LogEntry(2, 3)
    assert keeper_messages.LogEntry.read({**entry.document(), "line": None}) == entry


READS_JOURNALS = """
import sys
from ipexctl.remote.run import run_list
from ipexctl.remote.run_files import journal

for folder in sys.argv[1:]:
    assert len(journal.read_journal(folder, "n")) == 1, folder
    print("ipexctl.common.rank_looks" in sys.modules)
"""


def test_looks_are_imported_when_a_journal_has_one(tmp_path: Path) -> None:
    """`ps` lists many runs that never stalled."""
    records = {
        "healthy": journal_records.PartEnded("ended", 0),
        "stalled": journal_records.LookNoted(1, [made(rank_looks.RankLook)], 0.0),
    }
    for name, record in records.items():
        (tmp_path / name).mkdir()
        assert journal.create_journal(str(tmp_path / name), "n").add(record)
    argv = [sys.executable, "-c", READS_JOURNALS, *(str(tmp_path / name) for name in records)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr


def modules_with_messages() -> Iterator[str]:
    for path in (ROOT / "ipexctl").rglob("*.py"):
        if re.search(r"import .*\b(Message|Variant)\b", path.read_text("utf-8")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def below(kind: type[Message]) -> Iterator[type[Message]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def test_no_two_messages_have_one_name() -> None:
    """A field's type is found by its name, and the message of a family by its kind."""
    for name in modules_with_messages():
        importlib.import_module(name)
    ours = [kind for kind in {*below(Message)} if kind.__module__.startswith("ipexctl.")]
    assert {*KINDS, *FAMILIES} <= {*ours} and {kind.__module__ for kind in ours} == {
        module.__name__ for module in MODULES
    } | {Message.__module__}
    assert [name for name, n in Counter(kind.__name__ for kind in ours).items() if n > 1] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_type_of_a_field_is_declared(kind: type[Message]) -> None:
    """Else a message in it would stay a document."""
    for name, type_ in kind._types.items():
        unknown = {*re.findall(r"\w+", type_)} - {*PLAIN, "list", "tuple", "dict"}
        assert unknown <= kinds.keys(), f"{name}: {type_}"


# what the hub hands on, what it concludes itself, and what only commands that watch get
NOT_JUDGED = {
    run_events.Swept, run_events.CopierReported,
    run_events.Begun, run_events.HostLost, run_events.Broken, run_events.ProgramEnded,
    run_events.Stalled, run_events.Moving, run_events.TimedOut, run_events.EndAsked,
    run_events.Abandoned, run_events.Noted, run_events.Checkpoint, run_events.RanksSucceeded,
    run_events.Over,
    run_events.Sample, run_events.RanksLooked, run_events.Exchanged, run_events.LogPart,
    run_events.LogSizes, run_events.Pong,
}  # fmt: skip
TABLES = {
    Worker: {*copy_messages.CopyOrder.variants.values()},
    Publication: {*copy_messages.CopierEvent.variants.values()},
    Judge: {*run_events.Event.variants.values()} - NOT_JUDGED,
}


@pytest.mark.parametrize("handler", TABLES, ids=lambda handler: handler.__name__)
def test_each_message_of_a_family_has_a_handler_that_takes_it(handler: Any) -> None:
    table = handler.HANDLERS
    assert {*table} == TABLES[handler]
    for kind, method in table.items():
        assert getattr(handler, method.__name__) is method
        assert kind in method.__annotations__.values(), method


def test_every_table_of_handlers_is_known_here() -> None:
    paths = (ROOT / "ipexctl").rglob("*.py")
    found = {path.stem for path in paths if re.search(r"^    HANDLERS\b", path.read_text(), re.M)}
    assert found == {handler.__module__.rpartition(".")[2] for handler in TABLES}


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("int", 3, True),
        ("bool", True, 1),
        ("float", 1, "1"),
        ("Line", "x", None),
        ("float | None", None, []),
        ("list[tuple[int | str, int]]", [[1, 2], ["a", 2]], [[1]]),
        ("tuple[str, ...]", ["a", "b"], ["a", 7]),
        ("dict[str, list[int]]", {"a": [1]}, {"a": 1}),
        ("dict[int, float]", {"12": 0.5}, {"a": 0.5}),
        ("dict[int, float]", {"0": 1}, {"-1": 1}),
        ("int", 1 << 62, -1),
        ("float | None", None, -0.5),
        ("Signed", -9, 1 << 63),
        ("Port", 65535, 65536),
        ("AbsolutePath", "/x", "x"),
        ("EnvKey", "0123456789abcdef", "0123456789abcdeF"),
        ("Document", {"a": [1]}, [1]),
        ("Look", {"number": 1, "kind": "Look"}, {"number": 1}),
        ("Look | None", None, {"number": "1", "kind": "Look"}),
    ],
)
def test_a_value_is_compared_with_an_annotation(type_: str, good: object, bad: object) -> None:
    read = reader_of(type_)
    read(good)
    with pytest.raises(TypeError):
        read(bad)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_annotation_can_be_checked(kind: type[Message]) -> None:
    for type_ in kind._types.values():
        with pytest.raises(TypeError):
            reader_of(type_)(NotImplemented)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_wrong_type_in_what_a_host_says_is_an_error_with_host_and_field(
    kind: type[Message],
) -> None:
    said = json.loads(json.dumps(made(kind).document()))
    assert json.loads(json.dumps(Answer("node01", said).read(kind).document())) == said
    for name in kind._types:
        with pytest.raises(HostFailed, match=f"^node01: the agent sent an invalid.*'{name}'"):
            Answer("node01", {**said, name: NotImplemented}).read(kind)


@pytest.mark.parametrize("path", sorted(COMMON.glob("*.py")), ids=lambda p: p.stem)
def test_kinds_of_text_and_numbers_are_quoted(path: Path) -> None:
    """`code: Signed` is `code: int` when the class is made: only the quoted name says more."""
    bare = [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id in PLAIN.keys() - {"str", "int", "float", "bool", "None"}
    ]
    assert bare == []
