"""Checks an SQL92 filter with the brokers before it is used (request 46), because later nothing would report an error.

An Apache broker that cannot parse a filter returns every message, and one that must not filter by properties refuses
each pull: a consumer would get too much, or nothing for ever. A broker that cannot be reached now is not asked.
"""

from steelyard.client.session import Session
from steelyard.errors import SubscriptionUnreadable, TopicNotFound, TransportError
from steelyard.model import ExpressionType, Subscription
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import CheckClientRequest, SubscriptionBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command


async def check_sql_filter(session: Session, group: str, subscription: Subscription) -> None:
    """Raise SubscriptionUnreadable if a broker of the topic rejects the filter; tags and a missing topic pass."""
    if subscription.expression_type is not ExpressionType.SQL92:
        return
    try:
        route = await session.routes.find(subscription.topic)
    except TopicNotFound:
        return
    body = encode_body(
        CheckClientRequest(client_id=session.client_id, group=group, subscription=SubscriptionBody.of(subscription))
    )
    for place in route.brokers:
        try:
            await session.request_ok(place.name, Command(RequestCode.CHECK_CLIENT_CONFIG, body=body))
        except TransportError:
            continue
        except SubscriptionUnreadable as error:
            raise SubscriptionUnreadable(
                error.remark,
                code=error.code,
                server=place.name,
                what=f"{place.name} cannot read the condition {subscription.expression!r} ({error.remark})",
                next_step="write it as in: amount > 10 AND region IN ('eu', 'us')",
            ) from None
