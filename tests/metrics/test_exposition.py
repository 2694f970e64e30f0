"""What is measured, as text: Prometheus' own parsers read back just what was written, whatever the names are."""

import math
from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families

from steelyard.errors import ConfigurationError
from steelyard.metrics.exposition import Exposition, format_exposition
from steelyard.metrics.families import (
    NODE_LABELS,
    Histogram,
    MetricFamily,
    MetricNode,
    MetricSpec,
    MetricType,
    Sample,
    merge_families,
)

LINES = MetricSpec("steelyard_connections", MetricType.GAUGE, "Lines that are open.", ("who",))
SENT = MetricSpec("steelyard_sent_total", MetricType.COUNTER, 'Bytes that went "out",\nwith a \\ in them.', ("who",))
GAPS = MetricSpec("steelyard_gap_seconds", MetricType.HISTOGRAM, "Gaps.", ("who",))

odd_texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n{},= '), max_size=20)


PARSERS: dict[Exposition, Callable[[str], Iterable[Metric]]] = {
    Exposition.PLAIN: text_string_to_metric_families,
    Exposition.OPEN: open_parser.text_string_to_metric_families,
}


def read(text: str, way: Exposition) -> list[Metric]:
    return list(PARSERS[way](text))


@pytest.mark.parametrize("way", Exposition)
@given(
    values=st.dictionaries(
        odd_texts, st.floats(allow_nan=False) | st.integers(min_value=-(2**53), max_value=2**53), min_size=1
    )
)
def test_any_name_survives(way: Exposition, values: Mapping[str, float]) -> None:
    text = format_exposition([LINES.family(((who,), value) for who, value in values.items())], way)
    (family,) = read(text, way)
    assert (family.name, family.type, family.documentation) == (
        "steelyard_connections",
        "gauge",
        "Lines that are open.",
    )
    assert {sample.labels["who"]: sample.value for sample in family.samples} == values


@pytest.mark.parametrize("way", Exposition)
def test_counters_and_their_help_are_read_back(way: Exposition) -> None:
    (family,) = read(format_exposition([SENT.family([(("a",), 3)])], way), way)
    assert family.type == "counter"
    assert family.documentation == SENT.help
    assert [(sample.name, sample.value) for sample in family.samples] == [("steelyard_sent_total", 3)]


@pytest.mark.parametrize("way", Exposition)
@given(gaps=st.lists(st.floats(min_value=0, max_value=1e9), max_size=30))
def test_a_histogram_counts_up_to_its_total(way: Exposition, gaps: list[float]) -> None:
    buckets = Histogram((1, 10, 2_500))
    for gap in gaps:
        buckets.add(gap)
    (family,) = read(format_exposition([GAPS.family([(("a",), buckets)])], way), way)
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    bounds = [1.0, 10.0, 2_500.0, math.inf]
    for bound, words in zip(bounds, ("1.0", "10.0", "2500.0", "+Inf"), strict=True):
        assert found["steelyard_gap_seconds_bucket", words] == sum(gap <= bound for gap in gaps)
    assert found["steelyard_gap_seconds_count", None] == len(gaps)
    assert found["steelyard_gap_seconds_sum", None] == pytest.approx(sum(gaps))


def test_what_cannot_be_a_letter_becomes_a_question_mark() -> None:
    text = format_exposition([LINES.family([(("half \ud800",), 1)])])
    assert 'who="half ?"' in text.encode().decode()


def test_numbers_that_are_none_are_written_as_prometheus_writes_them() -> None:
    numbers = {"nothing": math.nan, "most": math.inf, "least": -math.inf}
    lines = format_exposition([LINES.family(((who,), value) for who, value in numbers.items())]).splitlines()
    assert [line.rpartition(" ")[2] for line in lines[2:]] == ["NaN", "+Inf", "-Inf"]


def test_a_family_without_samples_is_not_written() -> None:
    assert format_exposition([LINES.family([])]) == ""
    assert format_exposition([], Exposition.OPEN) == "# EOF\n"


def test_families_of_one_name_become_one() -> None:
    parts = [LINES.family([(("a",), 1)]), SENT.family([]), LINES.family([(("b",), 2)])]
    lines, sent = merge_families(parts)
    assert lines == MetricFamily(
        "steelyard_connections", MetricType.GAUGE, LINES.help, (Sample({"who": "a"}, 1), Sample({"who": "b"}, 2))
    )
    assert sent.name == "steelyard_sent_total"


def test_samples_of_a_server_say_whose_they_are() -> None:
    lines = MetricSpec("steelyard_connections", MetricType.GAUGE, "Lines.", NODE_LABELS)
    family = MetricNode("shop", "broker", "broker-a").family(lines, [((), 2)])
    assert family.samples == (Sample({"cluster": "shop", "node_type": "broker", "node_id": "broker-a"}, 2),)


@pytest.mark.parametrize(("name", "kind"), [("sent", MetricType.COUNTER), ("sent_total", MetricType.GAUGE)])
def test_counters_and_only_counters_are_called_totals(name: str, kind: MetricType) -> None:
    with pytest.raises(ConfigurationError, match="end in _total"):
        MetricSpec(name, kind, "Bytes.")
