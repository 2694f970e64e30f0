"""Access: users of Apache RocketMQ from 5.3 on (ACL 2.0), and policies, each for one user and one resource.

Every process of a broker, master or replica, keeps users and policies for itself: a change is sent to each of them, and
their lists are merged. What is not the same everywhere is listed more than once. Passwords are never returned. A
resource is ``topic:orders``, ``group:billing``, ``cluster:main``, with ``*`` for all of a kind and ``orders-*`` for a
prefix. Names are the servers' own, with their namespace.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from steelyard.client.admin.admin_session import AdminPart, AdminSession, BrokerInstance, gather_limited
from steelyard.client.admin.brokers import BrokerAdmin
from steelyard.client.suggestions import closest_match
from steelyard.errors import (
    ConfigurationError,
    IllegalOperation,
    PolicyNotFound,
    RequestNotSupported,
    ServerError,
    ServerFailed,
    SteelyardError,
    UserNotFound,
)
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.acl import AclPolicy, AclPolicyEntry, AclRules, AclUser
from steelyard.wire.bodies.common import decode_settings
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, CommandFields
from steelyard.wire.headers.admin import ListPolicies, ListUsers, PolicyRequest, UserRequest

_KINDS = {"super": "Super", "normal": "Normal"}
_STATES = {True: "enable", False: "disable"}
_PROVIDER = "authenticationMetadataProvider"
_USER = "User:"
_ANYTHING = "*"
_RESOURCES = {each.lower(): each for each in ("Cluster", "Namespace", "Topic", "Group")}
_ACTIONS = {each.lower(): each for each in ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")}
_DECISIONS = {True: "Allow", False: "Deny"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AccessUser:
    """A user, and the broker processes that have it so."""

    name: str
    kind: str
    """``super``, who may do everything, or ``normal``."""
    is_enabled: bool
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyResult:
    """A user, or a user's policies, that was copied, and whether the copy replaced something."""

    name: str
    replaced: bool


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """What a user may or may not do with a resource, and the broker processes that have it so."""

    user: str
    resource: str
    actions: tuple[str, ...]
    allows: bool
    sources: tuple[str, ...] = ()
    """The addresses and networks that it applies to; all, if empty."""
    kind: str = "Custom"
    servers: tuple[str, ...] = ()


A = TypeVar("A", AccessUser, AccessPolicy)


class AccessAdmin(AdminPart):
    """Users and policies: `Admin.access`."""

    def __init__(self, session: AdminSession, brokers: BrokerAdmin) -> None:
        super().__init__(session)
        self._brokers = brokers

    async def users(
        self, part_of_name: str = "", *, broker: str | None = None, cluster: str | None = None
    ) -> list[AccessUser]:
        """List the users whose name contains a text; of all brokers, unless one or a cluster is named."""
        by_server = await self._users_by_server(part_of_name, broker, cluster)
        users = _merge((server, map(_access_user, listed)) for server, listed in by_server)
        return sorted(users, key=lambda each: (each.name, each.servers))

    async def user(self, name: str, *, broker: str | None = None, cluster: str | None = None) -> list[AccessUser]:
        """Return a user: once if it is the same everywhere. For an unknown one the error suggests who was meant."""
        every = await self.users(broker=broker, cluster=cluster)
        found = [each for each in every if each.name == name]
        if not found:
            raise _user_not_found(name, {each.name for each in every}, str(self._session.config))
        return found

    async def create_user(
        self, name: str, password: str, *, kind: str = "normal", broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerInstance]:
        """Create a user on every process of the brokers; return where it was created."""
        there = await self.users(name, broker=broker, cluster=cluster)
        if any(each.name == name for each in there):
            raise IllegalOperation(
                code=int(ResponseCode.NO_PERMISSION),
                server=str(self._session.config),
                what=f"user {name!r} exists already",
                next_step=f"change it with: steelyard access user set {name}",
            )
        body = encode_body(AclUser(name=name, password=password, kind=_user_kind(kind)))
        servers = await self._brokers.instances(broker, cluster=cluster)
        return await self._update_each(servers, RequestCode.AUTH_CREATE_USER, UserRequest(name), body)

    async def set_user(
        self,
        name: str,
        *,
        password: str | None = None,
        kind: str | None = None,
        enabled: bool | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[BrokerInstance]:
        """Change a user's password, kind or state; what is not given stays."""
        if password is None and kind is None and enabled is None:
            raise ConfigurationError(
                f"nothing of user {name!r} would change", next_step="give a password, a kind or a state"
            )
        await self.user(name, broker=broker, cluster=cluster)
        status = None if enabled is None else _STATES[enabled]
        user = AclUser(name=name, password=password, kind=None if kind is None else _user_kind(kind), status=status)
        servers = await self._brokers.instances(broker, cluster=cluster)
        return await self._update_each(servers, RequestCode.AUTH_UPDATE_USER, UserRequest(name), encode_body(user))

    async def delete_user(
        self, name: str, *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerInstance]:
        """Delete a user with its policies."""
        await self.user(name, broker=broker, cluster=cluster)
        servers = await self._brokers.instances(broker, cluster=cluster)
        return await self._update_each(servers, RequestCode.AUTH_DELETE_USER, UserRequest(name))

    async def copy_users(self, source: str, target: str, names: Iterable[str] | None = None) -> list[CopyResult]:
        """Copy users with their passwords from one broker to another; those that are there are replaced."""
        (_, users), *_ = await self._users_by_server("", source, None)
        known = {user.name or "": user for user in users}
        wanted = list(known) if names is None else list(names)
        for name in wanted:
            if name not in known:
                raise _user_not_found(name, known, source)
        servers = await self._brokers.instances(target)
        there = {
            server: {user.name for user in users} for server, users in await self._users_by_server("", target, None)
        }
        for server in servers:
            for name in wanted:
                code = RequestCode.AUTH_UPDATE_USER if name in there[server] else RequestCode.AUTH_CREATE_USER
                await self._update_each([server], code, UserRequest(name), encode_body(known[name]))
        return [CopyResult(name, any(name in each for each in there.values())) for name in wanted]

    async def policies(
        self,
        user: str | None = None,
        resource: str | None = None,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[AccessPolicy]:
        """List the policies of one user or of all, on resources whose name contains a text or on all."""
        every = _merge(await self._policies_by_server(broker, cluster))
        part = (resource or "").lower()
        found = [each for each in every if user in (None, each.user) and part in each.resource.lower()]
        return sorted(found, key=lambda each: (each.user, each.resource, each.servers))

    async def create_policy(
        self, policy: AccessPolicy, *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerInstance]:
        """Add a policy; one for the same user and resource is not replaced."""
        await self.user(policy.user, broker=broker, cluster=cluster)
        if await self._has_policy(policy, broker, cluster):
            raise IllegalOperation(
                code=int(ResponseCode.NO_PERMISSION),
                server=str(self._session.config),
                what=f"user {policy.user!r} has a rule on {policy.resource} already",
                next_step="change it with: steelyard access policy set",
            )
        return await self._put_policies(RequestCode.AUTH_CREATE_ACL, policy.user, [policy], broker, cluster)

    async def set_policy(
        self, policy: AccessPolicy, *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerInstance]:
        """Replace the policy for a user and a resource."""
        await self.user(policy.user, broker=broker, cluster=cluster)
        if not await self._has_policy(policy, broker, cluster):
            raise self._policy_not_found(policy.user, policy.resource, "Make it with: steelyard access policy create")
        return await self._put_policies(RequestCode.AUTH_UPDATE_ACL, policy.user, [policy], broker, cluster)

    async def delete_policy(
        self, user: str, resource: str | None = None, *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerInstance]:
        """Delete a user's policy on a resource, or all of its policies."""
        await self.user(user, broker=broker, cluster=cluster)
        there = await self.policies(user, broker=broker, cluster=cluster)
        if not any(resource in (None, rule.resource) for rule in there):
            raise self._policy_not_found(
                user, resource or "anything", "See which there are: steelyard access policy ls"
            )
        with_rules = {name for rule in there if resource in (None, rule.resource) for name in rule.servers}
        every = await self._brokers.instances(broker, cluster=cluster)
        servers = [server for server in every if str(server) in with_rules]
        fields = PolicyRequest(_USER + user, resource=resource)
        return await self._update_each(servers, RequestCode.AUTH_DELETE_ACL, fields)

    async def copy_policies(self, source: str, target: str, users: Iterable[str] | None = None) -> list[CopyResult]:
        """Copy the policies of users from one broker to another; policies on the same resource are replaced."""
        (_, rules), *_ = await self._policies_by_server(source, None)
        by_user: dict[str, list[AccessPolicy]] = {}
        for rule in rules:
            by_user.setdefault(rule.user, []).append(rule)
        wanted = list(by_user) if users is None else list(users)
        for user in wanted:
            if user not in by_user:
                raise self._policy_not_found(
                    user, "anything", f"See which {source} has: steelyard access policy ls --broker {source}"
                )
        known = {each.name for each in await self.users(broker=target)}
        there = {rule.user for _, each in await self._policies_by_server(target, None) for rule in each}
        for user in wanted:
            if user not in known:
                raise _user_not_found(user, known, target)
        for user in wanted:
            await self._put_policies(RequestCode.AUTH_UPDATE_ACL, user, by_user[user], target, None)
        return [CopyResult(user, user in there) for user in wanted]

    async def _users_by_server(
        self, part_of_name: str, broker: str | None, cluster: str | None
    ) -> list[tuple[BrokerInstance, tuple[AclUser, ...]]]:
        fields = ListUsers(filter=part_of_name or None)
        return await self._list_each(tuple[AclUser, ...], RequestCode.AUTH_LIST_USER, fields, broker, cluster)

    async def _policies_by_server(
        self, broker: str | None, cluster: str | None
    ) -> list[tuple[BrokerInstance, list[AccessPolicy]]]:
        code, fields = RequestCode.AUTH_LIST_ACL, ListPolicies()
        listed = await self._list_each(tuple[AclRules, ...], code, fields, broker, cluster)
        return [(server, [policy for each in rules for policy in _policies_of(each)]) for server, rules in listed]

    async def _list_each(
        self, kind: type[T], code: RequestCode, fields: CommandFields, broker: str | None, cluster: str | None
    ) -> list[tuple[BrokerInstance, T]]:
        """Return what each process lists; Apache's body is empty if there is nothing."""

        async def ask(server: BrokerInstance) -> tuple[BrokerInstance, T]:
            return server, decode_body(kind, (await self._request_access(server, code, fields)).body or b"[]")

        return await gather_limited(ask, await self._brokers.instances(broker, cluster=cluster))

    async def _request_access(
        self, server: BrokerInstance, code: RequestCode, fields: CommandFields, body: bytes = b""
    ) -> Command:
        """Send a request about users or policies; a broker that keeps none is told apart from one that failed."""
        try:
            return await self._session.request_ok(server, code, fields, body)
        except RequestNotSupported as error:
            raise RequestNotSupported(
                code=error.code,
                server=str(server),
                what=f"{server} keeps no users",
                next_step="Apache RocketMQ does from 5.3 on",
            ) from None
        except ServerFailed as error:
            await self._check_access_enabled(server, error)
            raise

    async def _check_access_enabled(self, server: BrokerInstance, error: ServerError) -> None:
        try:
            answer = await self._session.request_ok(server, RequestCode.GET_BROKER_CONFIG)
        except ServerError:
            return
        if not decode_settings(answer.body).get(_PROVIDER, "").strip():
            raise RequestNotSupported(
                error.remark,
                code=error.code,
                server=str(server),
                what=f"{server} keeps no users: access control is off, and every client is accepted",
                next_step=f"it needs {_PROVIDER} and authenticationEnabled in its file of settings",
            ) from None

    async def _has_policy(self, policy: AccessPolicy, broker: str | None, cluster: str | None) -> bool:
        there = await self.policies(policy.user, broker=broker, cluster=cluster)
        return any(each.resource == policy.resource for each in there)

    async def _put_policies(
        self, code: RequestCode, user: str, rules: Sequence[AccessPolicy], broker: str | None, cluster: str | None
    ) -> list[BrokerInstance]:
        entries: dict[str, list[AclPolicyEntry]] = {}
        for each in rules:
            entry = AclPolicyEntry(
                resource=each.resource, actions=each.actions, decision=_DECISIONS[each.allows], source_ips=each.sources
            )
            entries.setdefault(each.kind, []).append(entry)
        policies = tuple(AclPolicy(kind=kind, entries=tuple(listed)) for kind, listed in entries.items())
        body = encode_body(AclRules(subject=_USER + user, policies=policies))
        servers = await self._brokers.instances(broker, cluster=cluster)
        return await self._update_each(servers, code, PolicyRequest(_USER + user), body)

    def _policy_not_found(self, user: str, resource: str, next_step: str) -> PolicyNotFound:
        return PolicyNotFound(
            server=str(self._session.config), what=f"user {user!r} has no rule on {resource}.", next_step=next_step
        )

    async def _update_each(
        self, servers: Iterable[BrokerInstance], code: RequestCode, fields: CommandFields, body: bytes = b""
    ) -> list[BrokerInstance]:
        """Send a change to each process, and return these. If one fails, it is logged which have the change."""

        async def one(server: BrokerInstance) -> tuple[BrokerInstance, SteelyardError | None]:
            try:
                await self._request_access(server, code, fields, body)
            except SteelyardError as error:
                return server, error
            return server, None

        found = await gather_limited(one, servers)
        done = [server for server, error in found if error is None]
        failures = [error for _, error in found if error is not None]
        if failures and done:
            self._session.warn_once(f"the change was made on {', '.join(map(str, done))}")
        for error in failures[1:]:
            self._session.warn_once(error.what)
        if failures:
            raise failures[0]
        return done


def _merge(by_server: Iterable[tuple[BrokerInstance, Iterable[A]]]) -> list[A]:
    """Return what is the same on several processes once, with these."""
    found: dict[A, list[str]] = {}
    for server, listed in by_server:
        for each in listed:
            found.setdefault(each, []).append(str(server))
    return [replace(each, servers=tuple(servers)) for each, servers in found.items()]


def _user_not_found(name: str, known: Iterable[str], server: str) -> UserNotFound:
    """Make the error for a user that does not exist.

    >>> print(_user_not_found("alcie", ["alice"], "localhost:9876"))
    user 'alcie' does not exist on localhost:9876. Did you mean 'alice'?
    """
    meant = closest_match(name, known)
    return UserNotFound(
        server=server,
        what=f"user {name!r} does not exist on {server}.",
        next_step=f"Did you mean {meant!r}?" if meant else "See who does: steelyard access user ls",
    )


def _access_user(user: AclUser) -> AccessUser:
    is_enabled = (user.status or "").lower() != _STATES[False]
    return AccessUser(user.name or "", (user.kind or "normal").lower(), is_enabled, ())


def _user_kind(word: str) -> str:
    if word.lower() not in _KINDS:
        raise ConfigurationError(f"a user cannot be {word!r}", next_step=f"give one of: {', '.join(_KINDS)}")
    return _KINDS[word.lower()]


def parse_resource(text: str) -> str:
    """Parse a resource into the form of the servers.

    >>> parse_resource("topic:orders"), parse_resource("*"), parse_resource("group:billing-*")
    ('Topic:orders', '*', 'Group:billing-*')
    """
    if text == _ANYTHING:
        return text
    kind, colon, name = text.partition(":")
    if not colon or not name or kind.lower() not in _RESOURCES:
        raise ConfigurationError(
            f"{text!r} is no resource", next_step="write topic:NAME, group:NAME, cluster:NAME or *; NAME may end with *"
        )
    return f"{_RESOURCES[kind.lower()]}:{name}"


def parse_action(text: str) -> str:
    """Parse an action into the form of the servers.

    >>> parse_action("pub")
    'Pub'
    """
    found = _ACTIONS.get(text.strip().lower())
    if found is None:
        meant = closest_match(text, _ACTIONS)
        hint = f"did you mean {meant!r}?" if meant else f"give some of: {', '.join(_ACTIONS)}"
        raise ConfigurationError(f"{text!r} is no action", next_step=hint)
    return found


def _policies_of(rules: AclRules) -> Iterable[AccessPolicy]:
    for policy in rules.policies or ():
        for entry in policy.entries or ():
            yield AccessPolicy(
                (rules.subject or "").removeprefix(_USER),
                entry.resource or "",
                entry.actions or (),
                (entry.decision or "").lower() != _DECISIONS[False].lower(),
                entry.source_ips or (),
                policy.kind or "Custom",
            )
