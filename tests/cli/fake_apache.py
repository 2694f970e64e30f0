"""Servers of a few lines that answer as Apache's did when they were asked: for what our own servers do not have.

Each listens on a port of its own and answers by request code; what it has no answer for, it does not know. What they
answer is what 4.9.7 and 5.5.0 answered live; tests/interop asks the real ones the same.
"""

import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.acl import AclPolicy, AclPolicyEntry, AclRules, AclUser
from steelyard.wire.bodies.common import KVTable, decode_settings, encode_settings
from steelyard.wire.bodies.topics import BrokerEntry, ClusterBody
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.admin import PolicyRequest, UserRequest
from steelyard.wire.json_body import ById

Answer = Callable[[Command], Command]


@dataclass
class FakeServer:
    """A server: what it answers, and what it was asked."""

    answers: dict[int, Answer] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    log_end: int = 0
    asked: list[int] = field(default_factory=list)
    address: str = ""
    """Where it listens; if it is given, nobody is there."""

    def __post_init__(self) -> None:
        self.answers.setdefault(
            Code.GET_BROKER_CONFIG, lambda asked: response_to(asked, body=encode_settings(self.settings))
        )
        self.answers.setdefault(Code.GET_BROKER_RUNTIME_INFO, self._runtime)
        self.answers.setdefault(Code.UPDATE_BROKER_CONFIG, self._change)

    def answer(self, asked: Command) -> Command:
        """Answer, or say that it is not known."""
        self.asked.append(asked.code)
        known = self.answers.get(asked.code)
        if known is None:
            return response_to(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="request type not supported")
        return known(asked)

    def _runtime(self, asked: Command) -> Command:
        table = {"commitLogMinOffset": "-1", "commitLogMaxOffset": str(self.log_end), "brokerVersionDesc": "V5_5_0"}
        return response_to(asked, body=encode_body(KVTable(table=table)))

    def _change(self, asked: Command) -> Command:
        self.settings |= decode_settings(asked.body)
        return response_to(asked)


class FakeUserBroker(FakeServer):
    """A broker of 5.5.0 that keeps users and rules."""

    def __init__(self, *users: AclUser) -> None:
        super().__init__(settings={"authenticationMetadataProvider": "Local", "aclEnable": "false"})
        self.users = {user.name or "": user for user in users}
        self.rules: dict[str, AclRules] = {}
        self.answers |= {
            Code.AUTH_LIST_USER: self._list_users,
            Code.AUTH_CREATE_USER: self._put_user,
            Code.AUTH_UPDATE_USER: self._put_user,
            Code.AUTH_DELETE_USER: self._delete_user,
            Code.AUTH_LIST_ACL: lambda asked: response_to(asked, body=_listed(tuple(self.rules.values()))),
            Code.AUTH_CREATE_ACL: self._put_rules,
            Code.AUTH_UPDATE_ACL: self._put_rules,
            Code.AUTH_DELETE_ACL: self._delete_rules,
        }

    def _list_users(self, asked: Command) -> Command:
        return response_to(asked, body=_listed(tuple(self.users.values())))

    def _put_user(self, asked: Command) -> Command:
        new, old = decode_body(AclUser, asked.body), self.users.get(asked.header(UserRequest).username, AclUser())
        self.users[new.name or ""] = AclUser(
            name=new.name,
            password=new.password or old.password,
            kind=new.kind or old.kind or "Normal",
            status=new.status or old.status or "enable",
        )
        return response_to(asked)

    def _delete_user(self, asked: Command) -> Command:
        name = asked.header(UserRequest).username
        self.users.pop(name, None)
        self.rules.pop(f"User:{name}", None)
        return response_to(asked)

    def _entries(self, subject: str) -> dict[str, AclPolicyEntry]:
        return _by_resource(self.rules.get(subject, AclRules()))

    def _put_rules(self, asked: Command) -> Command:
        new = decode_body(AclRules, asked.body)
        subject = new.subject or ""
        self._keep(subject, self._entries(subject) | _by_resource(new))
        return response_to(asked)

    def _delete_rules(self, asked: Command) -> Command:
        header = asked.header(PolicyRequest)
        entries = self._entries(header.subject)
        kept = {name: each for name, each in entries.items() if header.resource not in (None, name)}
        self._keep(header.subject, kept)
        return response_to(asked)

    def _keep(self, subject: str, entries: Mapping[str, AclPolicyEntry]) -> None:
        policy = AclPolicy(kind="Custom", entries=tuple(entries.values()))
        self.rules[subject] = AclRules(subject=subject, policies=(policy,))
        if not entries:
            del self.rules[subject]


def _by_resource(rules: AclRules) -> dict[str, AclPolicyEntry]:
    return {entry.resource or "": entry for policy in rules.policies or () for entry in policy.entries or ()}


def _listed(things: tuple[object, ...]) -> bytes:
    return encode_body(things) if things else b""


@contextmanager
def fake_apache(brokers: Mapping[str, Mapping[int, FakeServer]], *others: FakeServer) -> Iterator[str]:
    """Start brokers, by name and id, other servers, and a name server that knows the brokers; give its address."""

    def clusters(asked: Command) -> Command:
        entries = {
            name: BrokerEntry(
                broker_name=name,
                cluster="main",
                addresses=ById({each: there.address for each, there in servers.items()}),
            )
            for name, servers in brokers.items()
        }
        return response_to(asked, body=encode_body(ClusterBody(brokers=entries, clusters={"main": tuple(brokers)})))

    names = FakeServer({Code.GET_BROKER_CLUSTER_INFO: clusters})
    with ExitStack() as stack:
        for server in (names, *(each for there in brokers.values() for each in there.values()), *others):
            if not server.address:
                stack.enter_context(_listening(server))
        yield names.address


@contextmanager
def _listening(server: FakeServer) -> Iterator[None]:
    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            splitter = FrameDecoder()
            while data := self.request.recv(1 << 16):
                for asked in splitter.feed(data):
                    self.request.sendall(encode_frame(server.answer(asked)))

    class Listener(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Listener(("127.0.0.1", 0), Connection) as listener:
        host, port = listener.socket.getsockname()
        server.address = f"{host}:{port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            listener.shutdown()
            thread.join()
