"""Questions for a member, passed on by the broker: 307, 309, 223.

307 GET_CONSUMER_RUNNING_INFO  passed on with fields and body as they are, and the answer likewise: for our members it
                               is a way to speak to each other
309 CONSUME_MESSAGE_DIRECTLY   the message is read from the log and sent along, with the broker's name and the flags of
                               topic and group
223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS   each member, or one, is asked by 221 how far it is, and the answers are put
                               together; who does not answer in time is left out

Who is not there: 1. Who does not answer within the limit: 207. Who is older than 3.1.8: 1.
"""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import structs

from steelyard.broker.handlers import Handler
from steelyard.broker.members import Member
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.errors import SteelyardError
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import SERVER_VERSION, ResponseCode, Version
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.group import AskRunningState, ConsumeDirectly, GroupAndTopic
from steelyard.wire.limits import LIST_BYTES
from steelyard.wire.maps import ByQueue
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_STATUS_MS = 5_000


def _running_state(state: State, request: Command, peer: Peer, now_ms: int) -> None:
    header = request.header(AskRunningState)
    member = _member(state, header.consumer_group, header.client_id)
    _pass_on(state, request, peer, member, Command(request.code, request.texts(), request.body), now_ms)


def _consume_directly(state: State, request: Command, peer: Peer, now_ms: int) -> None:
    header = request.header(ConsumeDirectly)
    member = _member(state, header.consumer_group, header.client_id or "")
    fields = {**request.texts(), "brokerName": state.options.name}
    topic, group = state.topics.get(header.topic or ""), state.groups.get(header.consumer_group)
    if topic is not None:
        fields["topicSysFlag"] = str(topic.settings.sys_flag or 0)
    if group is not None:
        fields["groupSysFlag"] = str(group.sys_flag or 0)
    record = _record(state, header.msg_id or "")
    _pass_on(state, request, peer, member, Command(request.code, fields, record), now_ms)


def _record(state: State, message_id: str) -> bytes:
    _, position = read_offset_id(message_id)
    record = state.store.lookup.at(position)
    if record is None:
        raise refusal(ResponseCode.QUERY_NOT_FOUND, f"there is no message {message_id[:80]} in the log of this broker")
    return bytes(record)


def _member(state: State, group_name: str, client_id: str) -> Member:
    group = state.members.group(group_name)
    member = None if group is None else group.members.get(client_id)
    if member is None or not member.lines:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id[:255]}> not online")
    if member.version < Version.V3_1_8_SNAPSHOT:
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{client_id}> Version <{member.version}> too low to finish, please upgrade it to V3_1_8",
        )
    return member


def _pass_on(state: State, request: Command, peer: Peer, member: Member, question: Command, now_ms: int) -> None:
    request = _waiting(request)

    def then(answer: Command | None) -> None:
        if answer is None:
            remark = f"consumer <{member.group}> <{member.id}> Timeout: it did not answer, or its line closed"
            told = answer_to(request, ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark)
        else:
            told = answer_to(request, answer.code, _texts(answer), answer.body, answer.remark)
        if not request.is_oneway:
            state.post(peer, told)

    question = structs.replace(question, version=SERVER_VERSION)
    state.post(member.peer, state.relays.ask(member.peer, question, then, now_ms + state.options.relay_ms))


def _waiting(request: Command) -> Command:
    """Return a request as it is kept until its answer comes: without its body, which may be large."""
    return structs.replace(request, fields={}, body=b"")


def _texts(answer: Command) -> dict[str, str]:
    try:
        return answer.texts()
    except SteelyardError:
        return {}


class _Status:
    """The answer to a 223 while it grows."""

    def __init__(self, state: State, request: Command, peer: Peer) -> None:
        self._state, self._request, self._peer = state, _waiting(request), peer
        self._open = 1  # one for whoever still asks
        self._found = dict[str, ByQueue[int]]()

    def ask(self, member: Member, question: Command, until_ms: int) -> None:
        """Ask one member."""
        sent = self._state.relays.ask(member.peer, question, lambda answer: self._heard(member.id, answer), until_ms)
        self._open += 1
        self._state.post(member.peer, sent)

    def _heard(self, client_id: str, answer: Command | None) -> None:
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            # A member that answers nonsense is one that did not answer.
            with suppress(SteelyardError):
                self._found[client_id] = decode_request(MemberOffsets, answer.body, most_bytes=LIST_BYTES).queues
        self.done()

    def done(self) -> None:
        """One less to wait for; the last one lets the answer go."""
        self._open -= 1
        if not self._open and not self._request.is_oneway:
            body = encode_body(MemberOffsets(members=dict(sorted(self._found.items()))))
            self._state.post(self._peer, answer_to(self._request, body=body))


def _status(state: State, request: Command, peer: Peer, now_ms: int) -> None:
    header = request.header(GroupAndTopic)
    group = state.members.group(header.group)
    if group is None:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]")
    question = Command(
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        GroupAndTopic(group=header.group, topic=header.topic),
        version=SERVER_VERSION,
    )
    status = _Status(state, request, peer)
    for member in group.members.values():
        if member.lines and header.client_addr in (None, "", member.id):
            status.ask(member, question, now_ms + _STATUS_MS)
    status.done()


HANDLERS: Mapping[int, Handler] = {
    Code.GET_CONSUMER_RUNNING_INFO: _running_state,
    Code.CONSUME_MESSAGE_DIRECTLY: _consume_directly,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _status,
}
