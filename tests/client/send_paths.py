"""The two ways that a blocking producer sends by: every promise of a send holds for both."""

from collections.abc import Callable

import pytest

from steelyard.client.producer.send_result import SendResult
from steelyard.client.sync.producer import Producer

Send = Callable[..., SendResult]
Way = Callable[[Producer], Send]


def directly(producer: Producer) -> Send:
    """Send in the caller's thread."""
    return producer.send


def by_the_loop(producer: Producer) -> Send:
    """Send on the loop."""
    return lambda message, **options: producer.submit(message, **options).result()


both_ways = pytest.mark.parametrize("way", [directly, by_the_loop])
