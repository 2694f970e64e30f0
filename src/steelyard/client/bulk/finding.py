"""Where a topic is, asked of the name servers without an event loop: one after the other, until one answers."""

from steelyard.client.connect import Connect
from steelyard.client.names import Names
from steelyard.errors import NoNameServer, TransportError, error_for
from steelyard.model import Route
from steelyard.net.blocking import BlockingLine
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.signing import signed

__all__ = ["find_route", "known_topics"]


def find_route(topic: str, connect: Connect, *, timeout_ms: int = 3_000) -> Route:
    """Return where a topic is; raises TopicNotFound, NoNameServer, and what else a name server may refuse.

    ``timeout_ms`` is for each name server.
    """
    full = Names(connect.namespace).full(topic)
    answer = _ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(full)), connect, timeout_ms)
    return decode_body(RouteBody, answer.body).route(full)


def known_topics(connect: Connect, *, timeout_ms: int = 3_000) -> list[str]:
    """Return all topics that the name servers know, as users call them."""
    answer = _ask(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), connect, timeout_ms)
    return list(map(Names(connect.namespace).bare, decode_body(TopicNames, answer.body).topics))


def _ask(command: Command, connect: Connect, timeout_ms: int) -> Command:
    if connect.credentials is not None:
        command = signed(command, connect.credentials)
    tls, why = connect.tls_context(), ""
    for address in connect.name_servers:
        try:
            line = BlockingLine(address, tls=tls, timeout_ms=timeout_ms)
            try:
                answer = line.ask(command, timeout_ms)
            finally:
                line.close()
        except TransportError as error:
            why = error.what
            continue
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=address)
        return answer
    raise NoNameServer(
        f"no name server of {connect} answers ({why})",
        next_step="check the address, and that a name server runs there",
    )
