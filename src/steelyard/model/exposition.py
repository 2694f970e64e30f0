"""Families as text that Prometheus reads: its own format, and OpenMetrics for those who ask for it.

Whatever a name holds, a sample stays one line: what the format gives a meaning to is escaped, and half a character
(which UTF-8 cannot write) becomes a question mark.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from steelyard.model.measures import Distribution, Family, Kind, Sample

__all__ = ["Exposition", "exposition"]


class Exposition(Enum):
    """A way to write families down; its value is the content type that says so."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @classmethod
    def accepted(cls, accept: str) -> "Exposition":
        """Return the way that a reader wants who sent this Accept header: its own format unless OpenMetrics is named.

        >>> Exposition.accepted("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3").name
        'OPEN'
        >>> Exposition.accepted("*/*").name
        'PLAIN'
        """
        return cls.OPEN if "application/openmetrics-text" in accept.lower() else cls.PLAIN


def exposition(families: Iterable[Family], way: Exposition = Exposition.PLAIN) -> str:
    """Write families down; those without samples are left out.

    >>> lines = Family("steelyard_lines", Kind.GAUGE, "Lines that are open.", (Sample({"node_id": "broker-a"}, 3),))
    >>> print(exposition([lines]), end="")
    # HELP steelyard_lines Lines that are open.
    # TYPE steelyard_lines gauge
    steelyard_lines{node_id="broker-a"} 3
    """
    parts = [line for family in families if family.samples for line in _lines(family, way)]
    if way is Exposition.OPEN:
        parts.append("# EOF")
    return "".join(f"{part}\n" for part in parts)


def _lines(family: Family, way: Exposition) -> Iterator[str]:
    name = family.name
    if way is Exposition.OPEN and family.kind is Kind.COUNTER:
        name = name.removesuffix("_total")  # there it is of the sample and not of the family
    # In Prometheus' own format a quote in a help text is a quote; OpenMetrics wants it escaped.
    said = _escaped(family.help) if way is Exposition.OPEN else _escaped(family.help).replace('\\"', '"')
    yield f"# HELP {name} {said}"
    yield f"# TYPE {name} {family.kind}"
    for sample in family.samples:
        if isinstance(sample, Sample):
            yield f"{family.name}{_braced(_labels(sample.labels))} {_number(sample.value)}"
        else:
            yield from _buckets(family.name, sample)


def _buckets(name: str, spread: Distribution) -> Iterator[str]:
    labels = _labels(spread.labels)
    bounded = [*zip(spread.bounds, spread.under, strict=True), (math.inf, spread.total)]
    for bound, under in bounded:
        limit = f'le="{_number(float(bound))}"'
        yield f"{name}_bucket{_braced([*labels, limit])} {under}"
    yield f"{name}_sum{_braced(labels)} {_number(spread.sum)}"
    yield f"{name}_count{_braced(labels)} {spread.total}"


def _labels(labels: Mapping[str, str]) -> list[str]:
    return [f'{name}="{_escaped(value)}"' for name, value in labels.items()]


def _braced(labels: list[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _escaped(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if isinstance(value, int) or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
