"""A cluster with a thousand topics and two hundred groups, made in seconds: one line is a member of all groups."""

from steelyard.aio import Admin
from steelyard.client.admin.asking import together
from steelyard.client.admin.group_rules import GroupRules
from steelyard.client.admin.topic_wishes import TopicWish
from steelyard.client.blocking.face import Face, waits
from steelyard.model import Subscription
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeKind,
    ConsumerBeat,
    Heartbeat,
    MessageModel,
    StartFrom,
    SubscriptionBody,
)
from steelyard.wire.codes import RequestCode

__all__ = ["Crowd", "names"]

_QUEUES = 4
_TOPICS_EACH = 5


def names(topics: int, groups: int) -> tuple[list[str], list[str]]:
    """Return the names of as many topics and groups."""
    return [f"topic-{number:04d}" for number in range(topics)], [f"group-{number:03d}" for number in range(groups)]


class _Crowd(Admin):
    """An administrator's client whose line says that it is a member of every group."""

    async def gather(self, topics: int, groups: int) -> None:
        """Make topics and groups, let groups have offsets, and say that somebody is there."""
        listed, readers = names(topics, groups)
        wishes = [TopicWish(name=name, queues=_QUEUES) for name in listed]
        await self.apply_topics(await self.plan_topics(wishes))
        await self.apply_groups(await self.plan_groups([GroupRules(name=name) for name in readers]))
        reads = {
            group: [listed[(place * _TOPICS_EACH + each) % topics] for each in range(_TOPICS_EACH)]
            for place, group in enumerate(readers)
        }
        places = list((await self._places()).values())
        commits = [
            (place, group, topic, queue)
            for place in places
            for group, mine in reads.items()
            for topic in mine
            for queue in range(_QUEUES)
        ]
        await together(lambda each: self._commit(*each, 0), commits, at_once=64)
        beat = Heartbeat(
            client_id="127.0.0.1@crowd",
            consumers=tuple(
                ConsumerBeat(
                    group=group,
                    kind=ConsumeKind.PUSH,
                    model=MessageModel.CLUSTERING,
                    start_from=StartFrom.FIRST_OFFSET,
                    subscriptions=tuple(SubscriptionBody.of(Subscription(topic)) for topic in mine),
                )
                # Some groups have nobody, as it is in life.
                for group, mine in list(reads.items())[: max(1, groups * 9 // 10)]
            ),
        )
        for place in places:
            await self._ask_well(place, RequestCode.HEART_BEAT, {}, encode_body(beat))


class Crowd(Face[_Crowd]):
    """Two hundred groups in one line, for programs without a loop. Its members are there while it is open."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(_Crowd(namesrv))

    gather = waits(_Crowd.gather)
