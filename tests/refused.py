"""What a test expects to fail: the slug of the error, and the values that it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ipexctl.base.located_errors import Bad
from ipexctl.errors import IpexctlError
from ipexctl.remote.failure import Failure


@contextmanager
def refused(slug: str, *values: object) -> Iterator[Any]:
    """`values` stand in its text. Yields what pytest.raises does, for more of the error."""
    with pytest.raises((IpexctlError, Bad, Failure)) as caught:
        yield caught
    error: Any = caught.value
    text = f"{error.what}\n{error.why}\n{error.hint}"
    assert error.slug == slug, text
    assert [value for value in values if str(value) not in text] == [], text
