"""The figures of a run: times that are kept by size are right within three percent; no figures are no trouble."""

from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.bench_run import BenchLatencyHistogram, BenchLoad, BenchStats
from steelyard.errors import ConfigurationError, TimedOut


@given(st.lists(st.integers(0, 1 << 36), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 99, 100]))
def test_a_percentile_is_never_too_low_and_hardly_too_high(times: list[int], percent: int) -> None:
    latencies = BenchLatencyHistogram()
    for each in times:
        latencies.record(each)
    ordered = sorted(times)
    exact = ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
    reported = latencies.percentile_us(percent)
    assert reported is not None
    assert exact <= reported <= exact * 33 / 32 + 1
    assert (latencies.min_us, latencies.max_us, latencies.count) == (ordered[0], ordered[-1], len(times))
    assert latencies.mean_us == pytest.approx(sum(times) / len(times))


def test_the_median_of_many_is_close() -> None:
    latencies = BenchLatencyHistogram()
    for each in range(10_000):
        latencies.record(each)
    assert latencies.percentile_us(50) == pytest.approx(quantiles(range(10_000), n=2)[0], rel=0.04)


def test_no_time_at_all_is_none() -> None:
    latencies = BenchLatencyHistogram()
    assert (latencies.min_us, latencies.mean_us, latencies.percentile_us(99)) == (None, None, None)


def test_a_clock_that_went_back_gives_zero() -> None:
    latencies = BenchLatencyHistogram()
    latencies.record(-5)
    assert (latencies.min_us, latencies.percentile_us(50)) == (0, 0)


def test_only_the_first_failure_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    figures = BenchStats("sent")
    for number in range(3):
        figures.record_failure(2, TimedOut(f"broker-{number} did not answer"))
    assert figures.results()["failed"] == 6
    assert capsys.readouterr().err.count("did not answer") == 1
    assert "0 sent" in figures.progress_text()
    assert figures.results()["per_second"] == 0.0


def test_a_steady_rate_is_for_single_messages() -> None:
    with pytest.raises(ConfigurationError, match="--rate is for single messages"):
        BenchLoad(100, None, None, 1, 2, 10.0)
