"""A cluster with a thousand topics and two hundred groups, made in seconds: one line is a member of all groups."""

from steelyard.aio import Admin
from steelyard.client.admin.admin_session import gather_limited
from steelyard.client.admin.group_config import GroupConfig
from steelyard.client.admin.topic_plan import TopicSpec
from steelyard.client.sync.client import SyncClient, blocking
from steelyard.model import Subscription
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    MessageModel,
    SubscriptionBody,
)
from steelyard.wire.codes import RequestCode

_QUEUES = 4
_TOPICS_EACH = 5


def names(topics: int, groups: int) -> tuple[list[str], list[str]]:
    """Return the names of as many topics and groups."""
    return [f"topic-{number:04d}" for number in range(topics)], [f"group-{number:03d}" for number in range(groups)]


class _ManyGroups(Admin):
    """An administrator's client whose line says that it is a member of every group."""

    async def create(self, topics: int, groups: int) -> None:
        """Make topics and groups, let groups have offsets, and say that somebody is there."""
        listed, readers = names(topics, groups)
        wishes = [TopicSpec(name=name, queues=_QUEUES) for name in listed]
        await self.topics.apply(await self.topics.plan(wishes))
        await self.groups.apply(await self.groups.plan([GroupConfig(name=name) for name in readers]))
        reads = {
            group: [listed[(place * _TOPICS_EACH + each) % topics] for each in range(_TOPICS_EACH)]
            for place, group in enumerate(readers)
        }
        places = list((await self._session.broker_places()).values())
        commits = [
            (place, group, topic, queue)
            for place in places
            for group, mine in reads.items()
            for topic in mine
            for queue in range(_QUEUES)
        ]
        await gather_limited(lambda each: self.offsets._commit(*each, 0), commits, limit=64)
        beat = HeartbeatBody(
            client_id="127.0.0.1@crowd",
            consumers=tuple(
                ConsumerHeartbeat(
                    group=group,
                    kind=ConsumeType.PUSH,
                    model=MessageModel.CLUSTERING,
                    start_from=ConsumeFromWhere.FIRST_OFFSET,
                    subscriptions=tuple(SubscriptionBody.of(Subscription(topic)) for topic in mine),
                )
                # Some groups have nobody, as it is in life.
                for group, mine in list(reads.items())[: max(1, groups * 9 // 10)]
            ),
        )
        for place in places:
            await self._session.request_ok(place, RequestCode.HEART_BEAT, {}, encode_body(beat))


class ManyGroups(SyncClient[_ManyGroups]):
    """Two hundred groups in one line, for programs without a loop. Its members are there while it is open."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(_ManyGroups(namesrv))

    create = blocking(_ManyGroups.create)
