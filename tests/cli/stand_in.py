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
from steelyard.wire.bodies.access import AccessRules, Policy, PolicyEntry, User
from steelyard.wire.bodies.accounts import Account, Accounts
from steelyard.wire.bodies.routes import BrokerEntry, ClusterBody
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.frames import Splitter, encode_frame
from steelyard.wire.headers import accounts as account_headers
from steelyard.wire.headers.admin import PolicySubject, UserName
from steelyard.wire.maps import ById

__all__ = ["AccountBroker", "Answer", "Server", "UserBroker", "apache"]

Answer = Callable[[Command], Command]


@dataclass
class Server:
    """A server: what it answers, and what it was asked."""

    answers: dict[int, Answer] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    log_end: int = 0
    asked: list[int] = field(default_factory=list)
    address: str = ""
    """Where it listens; if it is given, nobody is there."""

    def __post_init__(self) -> None:
        self.answers.setdefault(
            Code.GET_BROKER_CONFIG, lambda asked: answer_to(asked, body=encode_settings(self.settings))
        )
        self.answers.setdefault(Code.GET_BROKER_RUNTIME_INFO, self._runtime)
        self.answers.setdefault(Code.UPDATE_BROKER_CONFIG, self._change)

    def answer(self, asked: Command) -> Command:
        """Answer, or say that it is not known."""
        self.asked.append(asked.code)
        known = self.answers.get(asked.code)
        if known is None:
            return answer_to(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="request type not supported")
        return known(asked)

    def _runtime(self, asked: Command) -> Command:
        table = {"commitLogMinOffset": "-1", "commitLogMaxOffset": str(self.log_end), "brokerVersionDesc": "V5_5_0"}
        return answer_to(asked, body=encode_body(TextTable(table=table)))

    def _change(self, asked: Command) -> Command:
        self.settings |= decode_settings(asked.body)
        return answer_to(asked)


class UserBroker(Server):
    """A broker of 5.5.0 that keeps users and rules."""

    def __init__(self, *users: User) -> None:
        super().__init__(settings={"authenticationMetadataProvider": "Local", "aclEnable": "false"})
        self.users = {user.name or "": user for user in users}
        self.rules: dict[str, AccessRules] = {}
        self.answers |= {
            Code.AUTH_LIST_USER: self._list_users,
            Code.AUTH_CREATE_USER: self._put_user,
            Code.AUTH_UPDATE_USER: self._put_user,
            Code.AUTH_DELETE_USER: self._delete_user,
            Code.AUTH_LIST_ACL: lambda asked: answer_to(asked, body=_listed(tuple(self.rules.values()))),
            Code.AUTH_CREATE_ACL: self._put_rules,
            Code.AUTH_UPDATE_ACL: self._put_rules,
            Code.AUTH_DELETE_ACL: self._delete_rules,
        }

    def _list_users(self, asked: Command) -> Command:
        return answer_to(asked, body=_listed(tuple(self.users.values())))

    def _put_user(self, asked: Command) -> Command:
        new, old = decode_body(User, asked.body), self.users.get(asked.header(UserName).username, User())
        self.users[new.name or ""] = User(
            name=new.name,
            password=new.password or old.password,
            kind=new.kind or old.kind or "Normal",
            status=new.status or old.status or "enable",
        )
        return answer_to(asked)

    def _delete_user(self, asked: Command) -> Command:
        name = asked.header(UserName).username
        self.users.pop(name, None)
        self.rules.pop(f"User:{name}", None)
        return answer_to(asked)

    def _entries(self, subject: str) -> dict[str, PolicyEntry]:
        return _by_resource(self.rules.get(subject, AccessRules()))

    def _put_rules(self, asked: Command) -> Command:
        new = decode_body(AccessRules, asked.body)
        subject = new.subject or ""
        self._keep(subject, self._entries(subject) | _by_resource(new))
        return answer_to(asked)

    def _delete_rules(self, asked: Command) -> Command:
        header = asked.header(PolicySubject)
        entries = self._entries(header.subject)
        kept = {name: each for name, each in entries.items() if header.resource not in (None, name)}
        self._keep(header.subject, kept)
        return answer_to(asked)

    def _keep(self, subject: str, entries: Mapping[str, PolicyEntry]) -> None:
        policy = Policy(kind="Custom", entries=tuple(entries.values()))
        self.rules[subject] = AccessRules(subject=subject, policies=(policy,))
        if not entries:
            del self.rules[subject]


class AccountBroker(Server):
    """A broker of 4.9.7 that keeps accounts in a file."""

    path = "/opt/conf/plain_acl.yml"

    def __init__(self, *accounts: Account) -> None:
        super().__init__(settings={"aclEnable": "true"})
        self.accounts = {account.access_key or "": account for account in accounts}
        self.addresses: tuple[str, ...] = ()
        self.answers |= {
            Code.GET_BROKER_CLUSTER_ACL_CONFIG: self._list,
            Code.UPDATE_AND_CREATE_ACL_CONFIG: self._put,
            Code.DELETE_ACL_CONFIG: self._delete,
            Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self._open,
            Code.GET_BROKER_CLUSTER_ACL_INFO: self._versions,
        }

    def _list(self, asked: Command) -> Command:
        body = Accounts(accounts=tuple(self.accounts.values()), addresses=self.addresses)
        return answer_to(asked, body=encode_body(body))

    def _put(self, asked: Command) -> Command:
        given = asked.header(account_headers.PutAccount)
        if "READ" in (given.topic_perms or ""):
            return answer_to(asked, 209, remark="Parse resource permission error.\nThe expected ones are SUB or PUB.")
        self.accounts[given.access_key] = Account(
            access_key=given.access_key,
            secret_key=given.secret_key,
            admin=given.admin,
            default_topic=given.default_topic_perm,
            default_group=given.default_group_perm,
            topics=_split(given.topic_perms),
            groups=_split(given.group_perms),
            addresses=given.white_remote_address,
        )
        return answer_to(asked)

    def _delete(self, asked: Command) -> Command:
        del self.accounts[asked.header(account_headers.AccountKey).access_key]
        return answer_to(asked)

    def _open(self, asked: Command) -> Command:
        given = asked.header(account_headers.AllowAddresses)
        assert given.acl_file_full_path == self.path
        self.addresses = _split(given.global_white_addrs) or ()
        return answer_to(asked)

    def _versions(self, asked: Command) -> Command:
        text = f'{{"{self.path}":{{"counter":5,"stateVersion":0,"timestamp":1794835095846}}}}'
        return answer_to(asked, fields=account_headers.AccountVersionAnswer(version="{}", all_acl_file_version=text))


def _by_resource(rules: AccessRules) -> dict[str, PolicyEntry]:
    return {entry.resource or "": entry for policy in rules.policies or () for entry in policy.entries or ()}


def _split(text: str | None) -> tuple[str, ...] | None:
    """Split as Java does: nothing is left of a comma alone."""
    return None if text is None else tuple(filter(None, text.split(",")))


def _listed(things: tuple[object, ...]) -> bytes:
    return encode_body(things) if things else b""


@contextmanager
def apache(brokers: Mapping[str, Mapping[int, Server]], *others: Server) -> Iterator[str]:
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
        return answer_to(asked, body=encode_body(ClusterBody(brokers=entries, clusters={"main": tuple(brokers)})))

    names = Server({Code.GET_BROKER_CLUSTER_INFO: clusters})
    with ExitStack() as stack:
        for server in (names, *(each for there in brokers.values() for each in there.values()), *others):
            if not server.address:
                stack.enter_context(_listening(server))
        yield names.address


@contextmanager
def _listening(server: Server) -> Iterator[None]:
    class Line(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            splitter = Splitter()
            while data := self.request.recv(1 << 16):
                for asked in splitter.feed(data):
                    self.request.sendall(encode_frame(server.answer(asked)))

    class Listener(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Listener(("127.0.0.1", 0), Line) as listener:
        host, port = listener.socket.getsockname()
        server.address = f"{host}:{port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            listener.shutdown()
            thread.join()
