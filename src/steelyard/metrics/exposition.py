"""Families as text for Prometheus: its own format, and OpenMetrics for readers that accept it.

A sample is one line whatever its labels hold: special characters are escaped, and half of a surrogate pair becomes a
question mark.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from steelyard.metrics.families import HistogramSample, MetricFamily, MetricType, Sample


class Exposition(Enum):
    """A text format; its value is the content type."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @classmethod
    def accepted(cls, accept: str) -> "Exposition":
        """Return the format for an Accept header: plain, unless OpenMetrics is named.

        >>> Exposition.accepted("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3").name
        'OPEN'
        >>> Exposition.accepted("*/*").name
        'PLAIN'
        """
        return cls.OPEN if "application/openmetrics-text" in accept.lower() else cls.PLAIN


def format_exposition(families: Iterable[MetricFamily], way: Exposition = Exposition.PLAIN) -> str:
    """Write families as text; those without samples are left out.

    >>> samples = (Sample({"node_id": "broker-a"}, 3),)
    >>> family = MetricFamily("steelyard_connections", MetricType.GAUGE, "Open connections.", samples)
    >>> print(format_exposition([family]), end="")
    # HELP steelyard_connections Open connections.
    # TYPE steelyard_connections gauge
    steelyard_connections{node_id="broker-a"} 3
    """
    parts = [line for family in families if family.samples for line in _family_lines(family, way)]
    if way is Exposition.OPEN:
        parts.append("# EOF")
    return "".join(f"{part}\n" for part in parts)


def _family_lines(family: MetricFamily, way: Exposition) -> Iterator[str]:
    name = family.name
    if way is Exposition.OPEN and family.kind is MetricType.COUNTER:
        name = name.removesuffix("_total")  # there the suffix belongs to the sample, not to the family
    # OpenMetrics escapes quotes in a help text, Prometheus' own format does not.
    help_text = _escape(family.help) if way is Exposition.OPEN else _escape(family.help).replace('\\"', '"')
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {family.kind}"
    for sample in family.samples:
        if isinstance(sample, Sample):
            yield f"{family.name}{_in_braces(_format_labels(sample.labels))} {_format_number(sample.value)}"
        else:
            yield from _histogram_lines(family.name, sample)


def flat_samples(family: MetricFamily) -> Iterator[tuple[str, dict[str, str], float]]:
    """Iterate over all samples as Prometheus stores them: name, labels and number; a bucket is a sample, too.

    >>> gaps = HistogramSample({}, (0.1,), (2,), total=3, sum=5.5)
    >>> for sample in flat_samples(MetricFamily("gap_seconds", MetricType.HISTOGRAM, "Gaps.", (gaps,))):
    ...     print(*sample)
    gap_seconds_bucket {'le': '0.1'} 2
    gap_seconds_bucket {'le': '+Inf'} 3
    gap_seconds_sum {} 5.5
    gap_seconds_count {} 3
    """
    for sample in family.samples:
        if isinstance(sample, Sample):
            yield family.name, dict(sample.labels), sample.value
            continue
        for bound, under in _buckets(sample):
            yield f"{family.name}_bucket", {**sample.labels, "le": bound}, under
        yield f"{family.name}_sum", dict(sample.labels), sample.sum
        yield f"{family.name}_count", dict(sample.labels), sample.total


def _buckets(histogram: HistogramSample) -> Iterator[tuple[str, int]]:
    bounds = (*histogram.bounds, math.inf)
    for bound, under in zip(bounds, (*histogram.cumulative_counts, histogram.total), strict=True):
        yield _format_number(float(bound)), under


def _histogram_lines(name: str, histogram: HistogramSample) -> Iterator[str]:
    labels = _format_labels(histogram.labels)
    for bound, under in _buckets(histogram):
        limit = f'le="{bound}"'
        yield f"{name}_bucket{_in_braces([*labels, limit])} {under}"
    yield f"{name}_sum{_in_braces(labels)} {_format_number(histogram.sum)}"
    yield f"{name}_count{_in_braces(labels)} {histogram.total}"


def _format_labels(labels: Mapping[str, str]) -> list[str]:
    return [f'{name}="{_escape(value)}"' for name, value in labels.items()]


def _in_braces(labels: list[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _escape(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _format_number(value: float) -> str:
    if isinstance(value, int) or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
