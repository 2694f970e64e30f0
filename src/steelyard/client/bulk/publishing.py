"""Where the messages of one bulk sender go: turns over each topic's queues, and the addresses of their brokers.

A topic is looked up once, when it is first sent to, and again when none of its brokers takes anything. Then the turns
go on over the new list. The list that keys are counted on stays the first one, so that a key has one queue from the
first message to the last. One ledger for all topics knows which brokers failed.
"""

import random

from steelyard.balance.ledger import Ledger
from steelyard.balance.pick import Picker
from steelyard.client.bulk.finding import find_route, known_topics
from steelyard.client.connect import Connect
from steelyard.client.names import Names
from steelyard.client.nearest import missing_topic, no_broker
from steelyard.errors import BrokerNotInRoute, NoRoute, SteelyardError, TopicNotFound
from steelyard.model import PublishList, Queue
from steelyard.model.names import DEFAULT_TOPIC
from steelyard.net.clock import steady_ms

__all__ = ["Publishing"]

_AGAIN_MS = 1_000
"""Between two look-ups of one topic: many batches fail at once when a broker does."""


class Publishing:
    """The topics of one sender; names are the users', queues those that servers know."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._names = Names(connect.namespace)
        # Batches under way wait for each other on a line: what is slow shows only beside the other brokers.
        self._ledger = Ledger(against_median=True)
        self._pickers: dict[str, Picker] = {}
        self._queues: dict[str, tuple[Queue, ...]] = {}
        self._lists: dict[str, PublishList] = {}
        self._addresses: dict[str, str] = {}
        self._looked_ms: dict[str, int] = {}

    def queues(self, topic: str) -> tuple[Queue, ...]:
        """Return the queues of a topic that keys are counted on."""
        self.picker(topic)
        return self._queues[topic]

    def picker(self, topic: str) -> Picker:
        """Return the turns of a topic; raises TopicNotFound, NoRoute and NoNameServer."""
        known = self._pickers.get(topic)
        if known is None:
            listed = self._look_up(topic)
            self._queues[topic] = listed.queues
            known = self._pickers[topic] = Picker(listed, random.getrandbits(31), self._ledger)
        return known

    def is_elsewhere(self, topic: str) -> bool:
        """Look a topic up again, at most once a second, and say whether its route is another one now."""
        if steady_ms() - self._looked_ms.get(topic, 0) < _AGAIN_MS:
            return False
        before = self._lists.get(topic), dict(self._addresses)
        try:
            listed = self._look_up(topic)
        except SteelyardError:
            return False  # it keeps the route that it had: brokers may be restarting
        self._pickers[topic].use(listed)
        return before != (self._lists[topic], self._addresses)

    def address_of(self, broker: str) -> str:
        """Return where a broker takes messages."""
        address = self._addresses.get(broker)
        if address is None:
            raise BrokerNotInRoute(f"no route of {', '.join(self._pickers)} says where {broker} is")
        return address

    def _look_up(self, topic: str) -> PublishList:
        self._looked_ms[topic] = steady_ms()
        try:
            listed = find_route(topic, self._connect).publish_list()
        except TopicNotFound:
            listed = self._borrowed(topic)
        if not listed:
            raise NoRoute(
                f"topic {topic!r} has no queue that takes messages",
                next_step="check its permission, and that a master of it is up",
            )
        if listed.route is not None:
            for place in listed.route.brokers:
                if place.master is not None:
                    self._addresses[place.name] = place.master
        self._lists[topic] = listed
        return listed

    def _borrowed(self, topic: str) -> PublishList:
        """Return the queues of the default topic: a broker makes a topic of its own accord with its first message."""
        try:
            return find_route(DEFAULT_TOPIC, self._connect).borrowed_list(self._names.full(topic))
        except TopicNotFound:
            raise self._missing(topic) from None

    def _missing(self, topic: str) -> TopicNotFound:
        where = str(self._connect)
        try:
            known = known_topics(self._connect)
        except SteelyardError:
            return missing_topic(topic, (), where=where)
        # Brokers always have some topics of their own.
        return missing_topic(topic, known, where=where) if known else no_broker(topic, where=where)
