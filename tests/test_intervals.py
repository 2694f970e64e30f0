"""Default deadlines are longer in tests; this is what production has."""

import os

import pytest

from tests.intervals import whole_defaults

pytestmark = pytest.mark.skipif(
    os.environ.get("STEELYARD_LIVE", "embedded") != "embedded", reason="servers of Apache get production's"
)


def test_productions_deadlines_are_those_that_the_documents_name() -> None:
    assert whole_defaults == {
        "AdminSession.request(timeout_ms)": 5_000,
        "ClientConfig.__init__(timeout_s)": 5,
        "ProducerOptions.timeout_s": 3,
        "Session.request(timeout_ms)": 3_000,
        "Session.request_ok(timeout_ms)": 3_000,
    }
