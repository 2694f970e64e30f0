"""A condition in SQL92 is shown to the brokers before it is used (46), because later nobody would say what is wrong.

An Apache broker that cannot read a condition returns every message, and one that must not filter by properties refuses
each pull: a consumer would get too much, or nothing for ever. A broker that cannot be asked now is not asked.
"""

from steelyard.client.session import Session
from steelyard.errors import SubscriptionUnreadable, TopicNotFound, TransportError
from steelyard.model import FilterKind, Subscription
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import ClientCheck, SubscriptionBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

__all__ = ["check_condition"]


async def check_condition(session: Session, group: str, wanted: Subscription) -> None:
    """Raise what a broker of the topic has against a condition; tags need no look, nor does a topic that is to come."""
    if wanted.kind is not FilterKind.SQL92:
        return
    try:
        route = await session.routes.find(wanted.topic)
    except TopicNotFound:
        return
    body = encode_body(ClientCheck(client_id=session.client_id, group=group, subscription=SubscriptionBody.of(wanted)))
    for place in route.brokers:
        try:
            await session.ask_well(place.name, Command(RequestCode.CHECK_CLIENT_CONFIG, body=body))
        except TransportError:
            continue
        except SubscriptionUnreadable as error:
            raise SubscriptionUnreadable(
                error.remark,
                code=error.code,
                server=place.name,
                what=f"{place.name} cannot read the condition {wanted.expression!r} ({error.remark})",
                next_step="write it as in: amount > 10 AND region IN ('eu', 'us')",
            ) from None
