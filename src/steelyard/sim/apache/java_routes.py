"""How Java's members learn where topics are: from one name server, and from the next one if it does not answer."""

from steelyard.sim.apache.java_calls import Ask, Script
from steelyard.sim.apache.java_state import JavaState
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.nameserver import GetRoute

__all__ = ["look_up", "look_up_all"]


def look_up(state: JavaState, topic: str) -> Script[None]:
    """Ask where a topic is; of one that nobody knows the route stays as it was."""
    address = state.name_servers[state.name_server % len(state.name_servers)]
    answer = yield Ask(address, state.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)))
    if answer is None:
        state.name_server += 1
    elif answer.code == ResponseCode.SUCCESS:
        route = state.routes[topic] = decode_body(RouteBody, answer.body).route(topic)
        state.addresses |= {place.name: place.master for place in route.brokers if place.master is not None}


def look_up_all(state: JavaState) -> Script[None]:
    """Ask where every topic is."""
    for topic in state.options.all_topics:
        yield from look_up(state, topic)
