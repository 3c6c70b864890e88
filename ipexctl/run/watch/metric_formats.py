"""The formats of training output that the installed package knows, read once."""

from __future__ import annotations

from functools import cache

from ipexctl.local.shipped_tables import read_package_file
from ipexctl.run.output.metric_lines import Formats, parse_metric_formats


@cache
def metric_formats() -> Formats:
    return parse_metric_formats(read_package_file("run/output/metric_formats.toml"))
