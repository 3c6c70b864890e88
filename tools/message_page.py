"""The page of the site with the messages of a run: what its hosts report and are told.

Written from their declarations in ipexctl/common: annotations, and the comment behind each field.
"""

from __future__ import annotations

import ast
import inspect
import re
from types import ModuleType

from ipexctl.common import (
    attempt_record,
    blob_answers,
    checkpoint_reports,
    control_questions,
    copy_messages,
    env_answers,
    folder_answers,
    hub_orders,
    install_answers,
    keeper_messages,
    port_answers,
    rank_looks,
    rank_paces,
    removal_answers,
    restart_plan,
    result_answers,
    run_answers,
    run_events,
    run_inputs,
    run_orders,
    shown_plans,
    supervisor_state,
    watch_orders,
)
from ipexctl.common.message import Message, Variant

START = """\
# Messages of a run

What the machines of a run say to each other, written from its declarations. Each message is a class
in `ipexctl/common/` that both sides import; a field without a default has to be there. Who reads
it checks every value by its type. Some messages are a family, such as the orders of the
hub: the document of each one has the name of its class as the `kind`.
"""
SECTIONS = (
    ("What hosts are told when a run begins", run_orders, "Orders of the controller."),
    ("What happens", run_events, "Hosts report it to the hub, and the hub to all journals."),
    ("What a command says that watches", watch_orders, "The one that started it, or `attach`."),
    ("What the hub orders", hub_orders, "On the first host; its orders go to all of them."),
    ("What a supervisor is asked", control_questions, "By processes of its host."),
    ("What a run was started with", run_inputs, "Hosts keep it for `report`."),
    ("What commands that attach need", shown_plans, "The first host keeps it."),
    ("What a supervisor answers", supervisor_state, "To these questions."),
    ("What ranks do", rank_looks, "Looked at when a run makes no progress, and for `why`."),
    ("What ranks did for some time", rank_paces, "In the last minute, and in all."),
    ("What keepers are told when a run begins", restart_plan, "For runs with `--restarts`."),
    ("What keepers say to each other", keeper_messages, "One of them leads."),
    ("What keepers write down and answer", attempt_record, "On each host of such a run."),
    ("What a host answers about its runs", run_answers, "To `ps`, `why`, `logs` and `report`."),
    ("What a host answers about files and commands", result_answers, "To `fetch` and `env exec`."),
    ("What a host says about blobs", blob_answers, "While files are sent to it."),
    ("What a host says about folders", folder_answers, "A run's project copy, or a dataset."),
    ("Where a host listens", port_answers, "For the other hosts of a command."),
    ("What a host answers about an environment", env_answers, "To `run`, `shell` and `env exec`."),
    ("What a host answers during an install", install_answers, "And to `env diff`."),
    ("What a host answers about what it keeps", removal_answers, "To `env`, `prune`, `remove`."),
    ("Copies of checkpoints", copy_messages, "With `--checkpoints`: what is said and ordered."),
    ("Checkpoints", checkpoint_reports, "What `ipexctl checkpoints` asks each host."),
)


def page() -> str:
    return START + "".join(_section(*section) for section in SECTIONS)


def kinds_in(module: ModuleType) -> list[type[Message]]:
    found = [kind for kind in vars(module).values() if isinstance(kind, type)]
    return [k for k in found if issubclass(k, Message) and k.__module__ == module.__name__]


def _section(title: str, module: ModuleType, what: str) -> str:
    kinds = [k for k in kinds_in(module) if _has_a_document(k)]
    return f"\n## {title}\n\n{what}\n" + "".join(map(_kind, kinds))


def _has_a_document(kind: type[Message]) -> bool:
    return bool(inspect.get_annotations(kind) or _name(kind) or issubclass(kind, Variant))


def _name(kind: type[Message]) -> str:
    name: str = getattr(kind, "event", "")
    return name


def _kind(kind: type[Message]) -> str:
    name = f" (`{_name(kind)}`)" if _name(kind) else ""
    text = f"\n### {kind.__name__}{name}\n\n"
    if kind.__doc__:
        text += " ".join(inspect.cleandoc(kind.__doc__).split()) + "\n\n"
    rows = "".join(_rows(kind))
    return text + (f"| field | type | default | |\n|---|---|---|---|\n{rows}" if rows else "")


def _rows(kind: type[Message]) -> list[str]:
    source = inspect.getsource(kind)
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    rows = []
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            type_ = ast.unparse(node.annotation).strip("'\"").replace("|", "\\|")
            default = f"`{ast.unparse(node.value)}`" if node.value else ""
            said = re.search(r"  # (.*)", lines[node.lineno - 1])
            about = said[1] if said else ""
            name = ast.unparse(node.target)
            rows.append(f"| `{name}` | `{type_}` | {default} | {about} |\n")
    return rows
