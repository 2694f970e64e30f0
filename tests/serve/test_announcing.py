"""A broker tells its name servers of its topics: as soon as there are some, and with no more work than that takes."""

import asyncio
from unittest.mock import patch

from tests.net.served import run

from steelyard.broker.core import Broker
from steelyard.broker.options import BrokerOptions
from steelyard.broker.topics import Topics
from steelyard.net.loops import new_loop
from steelyard.serve.announcing import Announcer
from steelyard.serve.memory import MemoryDisk

_NOBODY = "127.0.0.1:1"


def test_the_table_of_topics_is_made_when_it_is_told_and_not_with_every_topic() -> None:
    async def story() -> None:
        broker = Broker.open(BrokerOptions(), MemoryDisk(), now_ms=0)
        announcer = Announcer(broker, [_NOBODY], lambda: 0)
        with patch.object(Topics, "table", autospec=True, side_effect=Topics.table) as made:
            for number in range(200):
                broker.state.topics.own(f"topic-{number}", 0)
                announcer.hold(lambda: None)
        announcer.drop()
        assert made.call_count == 1, f"{made.call_count} tables were made for what is told once"

    run(new_loop, story())


def test_who_makes_a_topic_waits_for_nobody_where_no_name_server_is() -> None:
    async def story() -> None:
        broker = Broker.open(BrokerOptions(), MemoryDisk(), now_ms=0)
        announcer, done = Announcer(broker, [], lambda: 0), asyncio.Event()
        broker.state.topics.own("topic", 0)
        announcer.hold(done.set)
        assert done.is_set()

    run(new_loop, story())
