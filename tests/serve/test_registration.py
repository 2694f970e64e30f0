"""A broker registers its topics as soon as there are some, and with no more work than that takes."""

import asyncio
from unittest.mock import patch

from steelyard.broker.broker import BrokerCore
from steelyard.broker.options import BrokerOptions
from steelyard.broker.topics import BrokerTopics
from steelyard.net.event_loop import new_event_loop
from steelyard.serve.disks import MemoryDisk
from steelyard.serve.registration import NameServerRegistration
from tests.net.toy_server import run

_NOBODY = "127.0.0.1:1"


def test_the_topic_table_is_built_when_it_is_sent_and_not_with_every_topic() -> None:
    async def scenario() -> None:
        broker = BrokerCore.open(BrokerOptions(), MemoryDisk(), now_ms=0)
        announcer = NameServerRegistration(broker, [_NOBODY], lambda: 0)
        with patch.object(BrokerTopics, "table", autospec=True, side_effect=BrokerTopics.table) as made:
            for number in range(200):
                broker.state.topics.get_or_create(f"topic-{number}", 1, 0)
                announcer.run_when_registered(lambda: None)
        announcer.close()
        assert made.call_count == 1, f"{made.call_count} tables were made for what is told once"

    run(new_event_loop, scenario())


def test_creating_a_topic_does_not_wait_without_name_servers() -> None:
    async def scenario() -> None:
        broker = BrokerCore.open(BrokerOptions(), MemoryDisk(), now_ms=0)
        announcer, done = NameServerRegistration(broker, [], lambda: 0), asyncio.Event()
        broker.state.topics.get_or_create("topic", 1, 0)
        announcer.run_when_registered(done.set)
        assert done.is_set()

    run(new_event_loop, scenario())
