"""The figures of the comparison, taken from what was measured last: bench/RESULTS.md."""

import re
from typing import NamedTuple

from tests.tidy.tree import ROOT

FIGURES = re.compile(r"(?<=<!-- figures: begin -->\n).*?(?=\n<!-- figures: end -->)", re.DOTALL)
"""Where a page has the table."""

_TIMES = re.compile(r"[\d.,]+x")


class _Pick(NamedTuple):
    """A line of the results: the benchmark, what it measured, whom beside, and what the page calls it."""

    benchmark: str
    what: str
    beside: str
    called: str


_PICKS = (
    _Pick("broker", "send 1 KiB, 64 threads, JSON", "Apache 4.9.7", "broker: send 1 KiB, 64 threads"),
    _Pick("broker", "send 1 KiB, 64 threads, binary", "Apache 4.9.7", "broker: the same, binary headers"),
    _Pick("broker", "send 1 KiB, 64 threads, synced", "Apache 4.9.7", "broker: the same, synced"),
    _Pick("broker", "send 1 KiB in batches of 32", "Apache 4.9.7", "broker: send 1 KiB in batches of 32"),
    _Pick("broker", "drain, binary", "Apache 4.9.7", "broker: drain a topic"),
    _Pick("client", "one after the other", "Java, 1 thread", "client: send, one after the other"),
    _Pick("client", "64 tasks", "Java, 64 threads", "client: send, 64 at once"),
    _Pick("client", "64 tasks", "ali-ons", "client: send, 64 at once"),
    _Pick("client", "batches of 32", "Java, batches", "client: send in batches of 32"),
    _Pick("client", "into a callback", "Java, consumer", "client: receive into a callback"),
    _Pick("client", "into a callback", "C++ client", "client: receive into a callback"),
    _Pick("spark", "100 B → noop, ours", "Kafka, short wait", "Spark: read a batch of 100 B"),
    _Pick("spark", "100 B → Parquet, ours", "Kafka, short wait", "Spark: the same, into Parquet"),
    _Pick("spark", "100 B, all columns → Parquet, ours", "Kafka, short wait", "Spark: all columns into Parquet"),
    _Pick("spark", "100 B → noop, AvailableNow, ours", "Kafka, short wait", "Spark: stream what is there"),
    _Pick("spark", "sent → seen, 20 messages a second, ours", "Kafka, short wait", "Spark: from sent to seen"),
    _Pick("spark", "write 100 B, ours", "Kafka as it comes", "Spark: write 100 B"),
    _Pick("spark", "write 1 KiB, ours", "Kafka as it comes", "Spark: write 1 KiB"),
)


_SHORT = {"README.md": (0, 3, 5, 6, 9, 10, 11, 15, 16)}
"""Pages with a short table, and the places of its lines, which have the best and the worst ratios."""


def figures_table(page: str = "") -> str:
    """Write the table of a page; what is slower than the other stands out."""
    picks = [_PICKS[place] for place in _SHORT.get(page, range(len(_PICKS)))]
    text = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    return "\n".join(
        ["| what | Steelyard | beside it | ratio |", "|---|---|---|---|", *(_row(text, pick) for pick in picks)]
    )


def with_figures(page: str) -> str:
    """Return the text of a page with the figures that were measured last, where it has them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return FIGURES.sub(lambda _: figures_table(page), text)


def _row(text: str, pick: _Pick) -> str:
    _, _, section = text.partition(f"\n## {pick.benchmark}:")
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) > 3 and cells[0] == pick.what and cells[2].startswith(f"{pick.beside}:"):
            ours, theirs = _first(cells[1]), _first(cells[2].removeprefix(f"{pick.beside}:"))
            found = _TIMES.match(cells[3])
            ratio = found[0] if found else cells[3]
            shown = f"**{ratio}**" if float(ratio.rstrip("x")) < 1 else ratio
            return f"| {pick.called} | {ours} | {pick.beside}: {theirs} | {shown} |"
    raise LookupError(f"bench/RESULTS.md has no line {pick.what!r} beside {pick.beside!r} under {pick.benchmark!r}")


def _first(text: str) -> str:
    """Return the figure that a cell begins with."""
    return text.strip().partition(", ")[0].partition(" (")[0].strip()
