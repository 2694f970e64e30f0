"""Members that are not ours: lines that say who they are and no more, as a client of another make does."""

from steelyard.aio import Admin
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


class _ForeignMember(Admin):
    """An administrator's client whose line says that it is a member of a group."""

    async def join(self, client_id: str, group: str, topic: str) -> None:
        """Say to every broker that somebody of this id is there."""
        beat = HeartbeatBody(
            client_id=client_id,
            consumers=(
                ConsumerHeartbeat(
                    group=group,
                    kind=ConsumeType.PUSH,
                    model=MessageModel.CLUSTERING,
                    start_from=ConsumeFromWhere.FIRST_OFFSET,
                    subscriptions=(SubscriptionBody.of(Subscription(topic)),),
                ),
            ),
        )
        for place in (await self._session.broker_places()).values():
            await self._session.request_ok(place, RequestCode.HEART_BEAT, {}, encode_body(beat))


class ForeignMember(SyncClient[_ForeignMember]):
    """A member that is there while it is open, for programs without a loop."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(_ForeignMember(namesrv))

    join = blocking(_ForeignMember.join)
