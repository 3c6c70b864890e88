"""Compares the numbers on a report with the ranks' logs; shares no code with the report.

    python -m tests.soak.report.check_report_numbers REPORT.json LOGS [LOGS of attempt 2 ...]

REPORT.json is `ipexctl report --json`; LOGS is a comma-separated list of the `logs` folders of an
attempt's hosts. Understands lines with `step N` or `epoch N`, Trainer's dictionaries
(whose step is epoch / epochs * total of the bar), Lightning's bar (epoch * total + N).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median

PAIR = re.compile(r"'?([A-Za-z_]\w*)'?[ =:]+'?(-?\d[\d.]*(?:e[-+]?\d+)?|nan|inf)(?![\w./%])")
BAR = re.compile(r"(?:Epoch (\d+): *)?\d+%\|.*?\| (\d+)/(\d+) \[(.*)")
Found = dict[str, dict[float, dict[str, float]]]  # name -> x -> log -> value


def read(path: Path, found: Found, bars: bool) -> None:
    """`bars`: a step is known from progress bars."""
    text = path.read_text("utf-8", "replace")
    drawn = [(int(n), int(total)) for _, n, total, _ in BAR.findall(text)]
    total = max((t for _, t in drawn), default=0)
    epochs = [float(e) for e in re.findall(r"'epoch': '?([\d.]+)", text)]
    alone = 0
    for line in re.split(r"[\r\n]", text):
        if (bar := BAR.search(line)) and bar[1] is not None and int(bar[3]) == total:
            if bar[2] == "0":  # the next epoch, with the values of the one before
                continue
            x, rest = int(bar[1]) * total + int(bar[2]), bar[4]
        elif line.lstrip("\x1b[A").startswith("{") and "train_runtime" not in line:
            (epoch,) = re.findall(r"'epoch': '?([\d.]+)", line)
            x, rest = float(epoch) * (total / max(epochs) if bars else 1), line
        elif begin := re.search(r"\b(?:step|[Ee]poch) (\d+)(.*)", line):
            x, rest = int(begin[1]), re.sub(r"^/\d+", "", begin[2])
        elif re.match(r"\W*val_loss", line):
            alone += 1
            x, rest = alone, line
        else:
            continue
        for name, value in PAIR.findall(rest):
            found.setdefault(name, {}).setdefault(round(x, 6), {})[path.name] = float(value)


def differences(report: dict, attempts: list[list[Path]]) -> tuple[int, list[str]]:
    """How many numbers agree, and what does not."""
    same, wrong = 0, []
    charts = [{"title": "", **report["loss"]}, *report["metrics"]]
    bars = all(chart["axis"] == "step" for chart in charts)
    logs: list[Found] = []
    for folders in attempts:
        logs.append({})
        for path in sorted(p for folder in folders for p in folder.glob("rank*.log")):
            read(path, logs[-1], bars)
    for chart in charts:
        for series in chart["series"]:
            name, _, attempt = series["name"].partition(", attempt ")
            own = logs[int(attempt or 1) - 1]
            names = {"loss": ("loss", "train_loss"), "evaluation": ("eval_loss", "val_loss")}
            names["evaluation loss"] = names["evaluation"]
            values = next((own[n] for n in names.get(name, (name,)) if n in own), {})
            page = {x: y for x, y in zip(chart["x"], series["y"], strict=True) if y is not None}
            expected = {x: median(by_rank.values()) for x, by_rank in values.items()}
            expected = {x: v for x, v in expected.items() if abs(v) < float("inf")}
            if name == "evaluation" and len(page) < len(expected):  # a bar repeats the last one
                kept = [x for x in sorted(expected) if x in page]
                expected = {x: expected[x] for x in kept}
            for x in sorted({*page, *expected}):
                a, b = page.get(x), expected.get(x)
                if a is not None and b is not None and abs(a - b) <= 6e-4 * max(abs(a), abs(b)):
                    same += 1
                else:
                    wrong.append(f"{series['name']} at {x:g}: {a} on the page, {b} in the logs")
    return same, wrong


def main(words: list[str]) -> int:
    report = json.loads(Path(words[0]).read_text("utf-8"))
    attempts = [[Path(folder) for folder in word.split(",")] for word in words[1:]]
    same, wrong = differences(report, attempts)
    print(f"{same} numbers agree, {len(wrong)} do not", *wrong, sep="\n  ")
    return bool(wrong) or not same


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
