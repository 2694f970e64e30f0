"""The whole page: one file that needs nothing else, no script, no font and no picture from elsewhere.

It is read without scripts, on a small screen, in the dark and on paper. Whatever comes from messages, members or
brokers is text: it is escaped where it is written, and what cannot be seen is shown as what it is.
"""

from html import escape

from steelyard.pipelines.report.findings import Finding, findings, opening
from steelyard.pipelines.report.history_section import history_section
from steelyard.pipelines.report.pieces import paragraph, tiles
from steelyard.pipelines.report.sections import (
    keys_section,
    lag_section,
    members_section,
    queues_section,
    time_section,
)
from steelyard.pipelines.report.skew import skew
from steelyard.pipelines.report.study import Study
from steelyard.pipelines.report.style import STYLE
from steelyard.pipelines.report.words import duration, named, number, size, stamp, times

__all__ = ["page"]

_SKEW = (
    "Skew is the most over the mean. 1 is even; 4 says that the busiest has four times what it would have if all had "
    "the same, so that work which is done when the busiest is done takes four times as long as it could. All in one of "
    "sixteen queues is 16. Chance makes few messages uneven: what chance alone does is not called uneven here."
)
_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"


def page(study: Study) -> str:
    """Write the page.

    >>> from steelyard.pipelines.report.traffic import Traffic
    >>> page(Study(topic="orders", at_ms=0, traffic=Traffic(queues=()))).startswith("<!doctype html>")
    True
    """
    of_group = f" and group {named(study.group)}" if study.group else ""
    title = f"Balance of topic {named(study.topic)}{of_group}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        paragraph(f"{_when(study)} Made at {stamp(study.at_ms)} UTC.", soft=True),
        paragraph(f"T{opening(study)[1:]}."),
        tiles(_figures(study)),
        "<h2>What was found</h2>",
        f"<ul class='findings'>{''.join(map(_line, findings(study)))}</ul>",
        queues_section(study),
        time_section(study),
        keys_section(study),
        members_section(study),
        lag_section(study),
        history_section(study),
        "<h2>How to read this</h2>",
        paragraph(_SKEW),
        *(paragraph(named(note, 1_000), soft=True) for note in study.notes),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_ELSE}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>{_joined(parts)}</body></html>\n"
    )


def _joined(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part)


def _when(study: Study) -> str:
    if study.since_ms is None and study.until_ms is None:
        return "All messages that the topic holds."
    start = "the first" if study.since_ms is None else f"{stamp(study.since_ms)} UTC"
    end = "the last" if study.until_ms is None else f"{stamp(study.until_ms)} UTC"
    return f"Messages from {start} to {end}."


def _line(finding: Finding) -> str:
    kind = finding.kind.value
    advice = f"<span class='advice'>{escape(finding.advice)}</span>" if finding.advice else ""
    return f"<li class='{kind}'><b>{kind}</b><span>{escape(finding.sentence)}</span>{advice}</li>"


def _figures(study: Study) -> list[tuple[str, str]]:
    traffic = study.traffic
    figures = [
        ("messages", number(traffic.messages)),
        ("in bodies", size(traffic.body_bytes)),
        ("skew of queues", times(skew({each: each.messages for each in traffic.queues}).ratio)),
    ]
    if members := study.members():
        figures.append(("skew of members", times(skew({each.id: each.messages for each in members}).ratio)))
    if study.lags():
        figures.append(("wait for the group", number(sum(study.lags().values()))))
    told = study.history
    if told is not None:
        figures.append(("moves", number(len(told.moves))))
        if told.gaps_ms:
            figures.append(("longest without a reader", duration(told.gaps_ms[-1])))
        figures.append(("times with two owners", number(len(told.overlaps))))
    return figures
