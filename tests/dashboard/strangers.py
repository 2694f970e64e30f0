"""Members that are not ours: lines that say who they are and no more, as a client of another make does."""

from steelyard.aio import Admin
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

__all__ = ["Stranger"]


class _Stranger(Admin):
    """An administrator's client whose line says that it is a member of a group."""

    async def join(self, client_id: str, group: str, topic: str) -> None:
        """Say to every broker that somebody of this id is there."""
        beat = Heartbeat(
            client_id=client_id,
            consumers=(
                ConsumerBeat(
                    group=group,
                    kind=ConsumeKind.PUSH,
                    model=MessageModel.CLUSTERING,
                    start_from=StartFrom.FIRST_OFFSET,
                    subscriptions=(SubscriptionBody.of(Subscription(topic)),),
                ),
            ),
        )
        for place in (await self._places()).values():
            await self._ask_well(place, RequestCode.HEART_BEAT, {}, encode_body(beat))


class Stranger(Face[_Stranger]):
    """A member that is there while it is open, for programs without a loop."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(_Stranger(namesrv))

    join = waits(_Stranger.join)
