"""Brokers come, go and say that they are alive: 103, 104, 322 and 904.

- 103 REGISTER_BROKER, broker to name server, every 30 s and at each change of a topic; 4.9 sends many of them oneway.
  The body is JSON or, from older brokers, compressed; below version 37 it is the bare table of topics. ``bodyCrc32`` is
  checked unless it is 0. A full table and an addition of one topic look alike. The answer tells a replica where its
  master is, and every broker the order that was set for topics.
- 104 UNREGISTER_BROKER, at an orderly end.
- 322 QUERY_DATA_VERSION says that the broker is alive and asks whether its table is the one known here.
- 904 BROKER_HEARTBEAT says that the broker is alive, usually oneway. The rest of its fields is for controllers.

Left out: telling replicas that the smallest id changed, which Apache's does only if it is configured to.
"""

import zlib
from typing import TypeVar

from steelyard.nameserver.key_values import ORDER_TOPICS
from steelyard.nameserver.names import refusal
from steelyard.nameserver.registry import comparable
from steelyard.nameserver.state import State
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.registration import Registration, decompress_registration
from steelyard.wire.bodies.shared import TableVersion, TextTable
from steelyard.wire.bodies.topics import TopicTable
from steelyard.wire.codes import ResponseCode, Version
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.nameserver import BrokerBeat, BrokerIdentity, ChangedAnswer, RegisterAnswer, RegisterBroker
from steelyard.wire.limits import FRAME_BYTES, REGISTRATION_MARKS
from steelyard.wire.peers import Peer

__all__ = ["beat", "query_version", "register", "unregister"]

T = TypeVar("T")

_JAVA_CRC_BITS = 0x7FFF_FFFF


def register(state: State, command: Command, peer: Peer, now_ms: int) -> Command:
    """103: a broker is here, with these topics."""
    header = command.header(RegisterBroker)
    if header.body_crc32 and zlib.crc32(command.body) & _JAVA_CRC_BITS != header.body_crc32:
        raise refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match: the body is not what was sent; send it again")
    body = _registration(command, header)
    registered = state.registry.register(header, body, peer, state.options, now_ms)
    master = registered.master
    fields = RegisterAnswer(master.ha_address, master.address) if master else RegisterAnswer()
    order = state.key_values.listed(ORDER_TOPICS) if state.options.tells_brokers_order else None
    answer_body = b"" if order is None else encode_body(TextTable(table=order))
    return answer_to(command, fields=fields, body=answer_body, remark=registered.remark)


def unregister(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """104: a broker goes."""
    header = command.header(BrokerIdentity)
    state.registry.unregister(header.broker_name, header.broker_addr)
    return answer_to(command)


def query_version(state: State, command: Command, _peer: Peer, now_ms: int) -> Command:
    """322: tell whether a broker's topics are as they are known here."""
    header = command.header(BrokerIdentity)
    asked = decode_request(TableVersion, command.body) if command.body else None
    replica = state.registry.heard_of(header.cluster_name, header.broker_addr, now_ms)
    if replica is None:
        return answer_to(command, fields=ChangedAnswer(True))
    is_changed = asked is None or comparable(asked) != replica.version
    return answer_to(command, fields=ChangedAnswer(is_changed), body=encode_body(replica.version))


def beat(state: State, command: Command, _peer: Peer, now_ms: int) -> Command:
    """904: still here."""
    header = command.header(BrokerBeat)
    state.registry.heard_of(header.cluster_name, header.broker_addr, now_ms)
    return answer_to(command)


def _registration(command: Command, header: RegisterBroker) -> Registration:
    if not command.body:
        return Registration()
    if command.version < Version.V3_0_11:
        return Registration(table=_table(TopicTable, command))
    if header.compressed:
        return decompress_registration(command.body, version=command.version)
    return _table(Registration, command)


def _table(kind: type[T], command: Command) -> T:
    return decode_request(kind, command.body, most_bytes=FRAME_BYTES, most_marks=REGISTRATION_MARKS)
