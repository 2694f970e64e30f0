"""Users of Apache RocketMQ from 5.3 on: who may get in.

Every process of a broker keeps users for itself, masters and replicas alike, so each of them is told, and what they
say is put together. A user that is not the same everywhere is listed more than once. Passwords are sent and never told.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import BrokerCare
from steelyard.client.admin.servers import Lacking, Server, lacking
from steelyard.client.nearest import nearest
from steelyard.errors import (
    ConfigurationError,
    IllegalOperation,
    RequestNotSupported,
    ServerError,
    ServerFailed,
    UserNotFound,
)
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.access import User
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Fields
from steelyard.wire.headers.admin import UserFilter, UserName

__all__ = ["Copied", "UserAccount", "Users", "listed", "missing_user"]

_KINDS = {"super": "Super", "normal": "Normal"}
_STATES = {True: "enable", False: "disable"}
_NO_USERS = Lacking(
    "keeps no users", "Apache RocketMQ does from 5.3 on, and has accounts before that: steelyard access account ls"
)
_PROVIDER = "authenticationMetadataProvider"
_SET_UP_WITHOUT = Lacking(
    "keeps no users: it is set up without them, and lets everybody in",
    f"it needs {_PROVIDER} and authenticationEnabled in its file of settings",
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UserAccount:
    """A user, and which processes of brokers know it so."""

    name: str
    kind: str
    """``super``, who may do everything, or ``normal``."""
    is_enabled: bool
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """Something that was copied, and whether it replaced what was there."""

    name: str
    replaced: bool


class Users(BrokerCare):
    """What an administrator does with users."""

    async def users(
        self, part_of_name: str = "", *, broker: str | None = None, cluster: str | None = None
    ) -> list[UserAccount]:
        """List the users whose name contains something; of all brokers, unless one or a cluster is named."""
        found: dict[UserAccount, list[str]] = {}
        for server, users in await self._users_by_server(part_of_name, broker, cluster):
            for user in users:
                found.setdefault(_account(user), []).append(str(server))
        accounts = [
            UserAccount(each.name, each.kind, each.is_enabled, tuple(servers)) for each, servers in found.items()
        ]
        return sorted(accounts, key=lambda each: (each.name, each.servers))

    async def user(self, name: str, *, broker: str | None = None, cluster: str | None = None) -> list[UserAccount]:
        """Return a user: once if it is the same everywhere. One that is nowhere is an error that says who was meant."""
        everybody = await self.users(broker=broker, cluster=cluster)
        found = [each for each in everybody if each.name == name]
        if not found:
            raise missing_user(name, {each.name for each in everybody}, str(self._connect))
        return found

    async def create_user(
        self, name: str, password: str, *, kind: str = "normal", broker: str | None = None, cluster: str | None = None
    ) -> list[Server]:
        """Make a user on every process of the brokers; return where it is made."""
        there = await self.users(name, broker=broker, cluster=cluster)
        if any(each.name == name for each in there):
            raise IllegalOperation(
                code=int(ResponseCode.NO_PERMISSION),
                server=str(self._connect),
                what=f"user {name!r} exists already",
                next_step=f"change it with: steelyard access user set {name}",
            )
        user = User(name=name, password=password, kind=_kind(kind))
        return await self._put_user(RequestCode.AUTH_CREATE_USER, user, await self.servers(broker, cluster=cluster))

    async def set_user(
        self,
        name: str,
        *,
        password: str | None = None,
        kind: str | None = None,
        enabled: bool | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[Server]:
        """Change a user's password, kind or state; what is not given stays."""
        if password is None and kind is None and enabled is None:
            raise ConfigurationError(f"nothing of user {name!r} is to change", next_step="say what")
        await self.user(name, broker=broker, cluster=cluster)
        status = None if enabled is None else _STATES[enabled]
        user = User(name=name, password=password, kind=None if kind is None else _kind(kind), status=status)
        return await self._put_user(RequestCode.AUTH_UPDATE_USER, user, await self.servers(broker, cluster=cluster))

    async def delete_user(self, name: str, *, broker: str | None = None, cluster: str | None = None) -> list[Server]:
        """Delete a user, and with it what it may do."""
        await self.user(name, broker=broker, cluster=cluster)

        async def delete(server: Server) -> None:
            await self._ask_for_users(server, RequestCode.AUTH_DELETE_USER, UserName(name))

        return await self._on_each(await self.servers(broker, cluster=cluster), delete)

    async def copy_users(self, source: str, target: str, names: Iterable[str] | None = None) -> list[Copied]:
        """Copy users with their passwords from one broker to another; those that are there are replaced."""
        (_, users), *_ = await self._users_by_server("", source, None)
        known = {user.name or "": user for user in users}
        wanted = list(known) if names is None else list(names)
        for name in wanted:
            if name not in known:
                raise missing_user(name, known, source)
        servers = await self.servers(target)
        there = {
            server: {user.name for user in users} for server, users in await self._users_by_server("", target, None)
        }
        for server in servers:
            for name in wanted:
                is_there = name in there[server]
                code = RequestCode.AUTH_UPDATE_USER if is_there else RequestCode.AUTH_CREATE_USER
                await self._put_user(code, known[name], [server])
        return [Copied(name, any(name in each for each in there.values())) for name in wanted]

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _users_by_server(
        self, part_of_name: str, broker: str | None, cluster: str | None
    ) -> list[tuple[Server, tuple[User, ...]]]:
        async def ask(server: Server) -> tuple[Server, tuple[User, ...]]:
            asked = UserFilter(filter=part_of_name or None)
            answer = await self._ask_for_users(server, RequestCode.AUTH_LIST_USER, asked)
            return server, listed(tuple[User, ...], answer)

        return await together(ask, await self.servers(broker, cluster=cluster))

    async def _put_user(self, code: RequestCode, user: User, servers: Iterable[Server]) -> list[Server]:
        async def put(server: Server) -> None:
            await self._ask_for_users(server, code, UserName(user.name or ""), encode_body(user))

        return await self._on_each(servers, put)

    async def _ask_for_users(self, server: Server, code: RequestCode, fields: Fields, body: bytes = b"") -> Command:
        """Ask about users or what they may do; a broker that keeps none is told from one that failed."""
        try:
            return await self._ask_server(server, code, fields, body, unknown=_NO_USERS)
        except RequestNotSupported:
            raise
        except ServerFailed as error:
            await self._refuse_without_users(server, error)
            raise

    async def _refuse_without_users(self, server: Server, error: ServerError) -> None:
        try:
            settings = await self._settings_of(server)
        except ServerError:
            return
        if not settings.get(_PROVIDER, "").strip():
            raise lacking(server, _SET_UP_WITHOUT, code=error.code, remark=error.remark) from None


def listed(kind: type[tuple[T, ...]], answer: Command) -> tuple[T, ...]:
    """Return the things of an answer; Apache's body is empty if there are none."""
    return decode_body(kind, answer.body) if answer.body else ()


def missing_user(name: str, known: Iterable[str], where: str) -> UserNotFound:
    """Make the error for a user that is not there.

    >>> print(missing_user("alcie", ["alice"], "localhost:9876"))
    user 'alcie' does not exist on localhost:9876. Did you mean 'alice'?
    """
    meant = nearest(name, known)
    return UserNotFound(
        code=int(ResponseCode.USER_NOT_EXIST),
        server=where,
        what=f"user {name!r} does not exist on {where}.",
        next_step=f"Did you mean {meant!r}?" if meant else "See who does: steelyard access user ls",
    )


def _account(user: User) -> UserAccount:
    is_enabled = (user.status or "").lower() != _STATES[False]
    return UserAccount(user.name or "", (user.kind or "normal").lower(), is_enabled, ())


def _kind(word: str) -> str:
    if word.lower() not in _KINDS:
        raise ConfigurationError(f"a user cannot be {word!r}", next_step=f"give one of: {', '.join(_KINDS)}")
    return _KINDS[word.lower()]
