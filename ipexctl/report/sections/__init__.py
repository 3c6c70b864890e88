"""The sections of a report: each module has the title, the words and the data of one. Pure.

`section_document` returns keys of the report's JSON document. NAME.js beside NAME.py draws them. A
section without NAME.js is a table with the columns HEADS of the rows under the key NAME; columns
MONO are code. EMPTY is shown where there is nothing to draw. LABELS are names of values. The page
has a section with NEEDS only if that key of the document has a value.
"""

from __future__ import annotations

from types import ModuleType

from ipexctl.report.sections import (
    attempts,
    cards,
    checkpoints,
    differences,
    environment,
    findings,
    git,
    loss,
    metrics,
    places,
    ranks,
    result,
    settings,
    timeline,
    usage,
    variables,
    waiting,
)


def _by_name(*modules: ModuleType) -> dict[str, ModuleType]:
    return {module.__name__.rpartition(".")[2]: module for module in modules}


# In the order of the page; the first screen is the header with its panels.
HEADER = _by_name(result, cards)
PANELS = _by_name(loss, waiting)
BODY = _by_name(
    attempts,
    differences,
    metrics,
    timeline,
    settings,
    git,
    environment,
    ranks,
    usage,
    places,
    variables,
    checkpoints,
    findings,
)
SECTIONS = HEADER | PANELS | BODY
