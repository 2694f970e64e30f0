"""Accounts of Apache RocketMQ 4.9, which a broker keeps in a file, and the addresses that need none.

A broker replaces an account whole: what is left out of a request is forgotten, and so is that somebody was an
administrator. So what it has is asked for first, and what is not to change is sent again. Secrets are never told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import BrokerCare
from steelyard.client.admin.servers import Lacking, Server, lacking
from steelyard.client.admin.times import moment
from steelyard.client.nearest import nearest
from steelyard.errors import (
    ConfigurationError,
    InvalidParameter,
    MalformedBody,
    UserNotFound,
    error_for,
)
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.accounts import Account, Accounts
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Fields
from steelyard.wire.headers.accounts import AccountKey, AccountVersionAnswer, AllowAddresses, PutAccount

__all__ = ["AccountFile", "PlainAccount", "PlainAccounts"]

_NO_ACCOUNTS = Lacking(
    "keeps no accounts", "Apache RocketMQ does up to 5.3.2, and has users from 5.3 on: steelyard access user ls"
)
_SET_UP_WITHOUT = Lacking(
    "keeps no accounts: it is set up without them",
    "it needs aclEnable=true in its file of settings; from 5.3 on there are users instead: steelyard access user ls",
)
_SHORTEST = 7
"""Keys and secrets that are shorter are refused by brokers."""
_NO_ADDRESS, _NO_ENTRIES = " ", ","
"""Nothing, said so that it is not taken for something left out: Java finds no entry in the second."""
_FAILED = (209, 210, 211)
"""Changing an account, deleting one, changing addresses: it failed."""
_MAIN_FILE = "plain_acl.yml"
_NOTHING: Fields = {}


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """An account, and which processes of brokers know it so."""

    access_key: str
    is_admin: bool
    topic_default: str | None
    """What it may do with topics that are not named: ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB``."""
    group_default: str | None
    topics: tuple[str, ...]
    """By topic: ``orders=PUB|SUB``."""
    groups: tuple[str, ...]
    addresses: str | None
    """Where it comes from without being asked for a signature."""
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccountFile:
    """A file with accounts on a broker's machine, and when it changed last."""

    broker: str
    path: str
    version: int
    changed_at: datetime | None


class PlainAccounts(BrokerCare):
    """What an administrator does with accounts that brokers keep in files."""

    async def accounts(self, *, broker: str | None = None, cluster: str | None = None) -> list[PlainAccount]:
        """List the accounts; one that is not the same everywhere is listed more than once."""
        found: dict[PlainAccount, list[str]] = {}
        for server, told in await self._accounts_by_server(broker, cluster):
            for account in told.accounts or ():
                found.setdefault(_plain(account), []).append(str(server))
        accounts = [replace(each, servers=tuple(names)) for each, names in found.items()]
        return sorted(accounts, key=lambda each: (each.access_key, each.servers))

    async def account(
        self, access_key: str, *, broker: str | None = None, cluster: str | None = None
    ) -> list[PlainAccount]:
        """Return an account: once if it is the same everywhere. One that is nowhere is an error."""
        everybody = await self.accounts(broker=broker, cluster=cluster)
        found = [each for each in everybody if each.access_key == access_key]
        if not found:
            raise _missing_account(access_key, [each.access_key for each in everybody], str(self._connect))
        return found

    async def set_account(
        self,
        access_key: str,
        *,
        secret: str | None = None,
        admin: bool | None = None,
        topic_default: str | None = None,
        group_default: str | None = None,
        topics: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        addresses: str | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[Server]:
        """Make an account, or change it; what is not given stays. A new one needs a secret."""
        told = dict(await self._accounts_by_server(broker, cluster))
        requests = {}
        for server, there in told.items():
            known = next((each for each in there.accounts or () if each.access_key == access_key), Account())
            requests[server] = PutAccount(
                access_key=access_key,
                secret_key=secret or known.secret_key,
                white_remote_address=known.addresses if addresses is None else addresses or _NO_ADDRESS,
                admin=known.admin if admin is None else admin,
                default_topic_perm=topic_default or known.default_topic,
                default_group_perm=group_default or known.default_group,
                topic_perms=_list(known.topics if topics is None else topics),
                group_perms=_list(known.groups if groups is None else groups),
            )
            _check_keys(access_key, requests[server].secret_key)

        async def put(server: Server) -> None:
            await self._ask_for_accounts(server, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, requests[server])

        return await self._on_each(requests, put)

    async def delete_account(
        self, access_key: str, *, broker: str | None = None, cluster: str | None = None
    ) -> list[Server]:
        """Delete an account where it is."""
        found = await self.account(access_key, broker=broker, cluster=cluster)
        names = {name for each in found for name in each.servers}

        async def delete(server: Server) -> None:
            await self._ask_for_accounts(server, RequestCode.DELETE_ACL_CONFIG, AccountKey(access_key))

        servers = await self.servers(broker, cluster=cluster)
        return await self._on_each([server for server in servers if str(server) in names], delete)

    async def open_addresses(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, tuple[str, ...]]:
        """Return the addresses that need no account, by the processes of brokers."""
        told = await self._accounts_by_server(broker, cluster)
        return {str(server): tuple(filter(str.strip, each.addresses or ())) for server, each in told}

    async def set_open_addresses(
        self,
        addresses: Sequence[str],
        *,
        file: str | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[Server]:
        """Say which addresses need no account, in the file that brokers begin with or in another of theirs."""

        async def put(server: Server) -> None:
            path = file or _main_file(await self._files(server), server)
            asked = AllowAddresses(_list(addresses) or _NO_ENTRIES, path)
            await self._ask_for_accounts(server, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, asked)

        return await self._on_each(await self._with_accounts(broker, cluster), put)

    async def account_files(self, *, broker: str | None = None, cluster: str | None = None) -> list[AccountFile]:
        """List the files with accounts that brokers have, and when each changed last."""
        found = await together(self._files, await self._with_accounts(broker, cluster))
        return [file for files in found for file in files]

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _accounts_by_server(self, broker: str | None, cluster: str | None) -> list[tuple[Server, Accounts]]:
        async def ask(server: Server) -> tuple[Server, Accounts]:
            answer = await self._ask_for_accounts(server, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
            return server, decode_body(Accounts, answer.body)

        return await together(ask, await self._with_accounts(broker, cluster))

    async def _with_accounts(self, broker: str | None, cluster: str | None) -> list[Server]:
        """Return the processes, if they keep accounts: one that does not never answers some of these questions."""

        async def check(server: Server) -> Server:
            settings = await self._settings_of(server)
            if "aclEnable" not in settings:
                raise lacking(server, _NO_ACCOUNTS)
            if settings["aclEnable"] != "true":
                raise lacking(server, _SET_UP_WITHOUT)
            return server

        return await together(check, await self.servers(broker, cluster=cluster))

    async def _files(self, server: Server) -> list[AccountFile]:
        answer = await self._ask_for_accounts(server, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        text = answer.header(AccountVersionAnswer).all_acl_file_version or "{}"
        try:
            files = msgspec.json.decode(text, type=dict[str, TableVersion], strict=False)
        except msgspec.MsgspecError as error:
            raise MalformedBody(str(error), where="versions of account files") from None
        return [
            AccountFile(str(server), path, each.counter, moment(each.timestamp)) for path, each in sorted(files.items())
        ]

    async def _ask_for_accounts(self, server: Server, code: RequestCode, fields: Fields = _NOTHING) -> Command:
        answer = await self._ask_at(server.address, code, fields)
        if answer.code in _FAILED:
            # These numbers mean other things from 5.0 on, so they are no errors of their own.
            why = " ".join((answer.remark or "it does not say why").split())
            raise InvalidParameter(
                why, code=answer.code, server=str(server), what=f"{server} refuses: {why}", next_step=""
            )
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise lacking(server, _NO_ACCOUNTS)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(server))
        return answer


def _missing_account(access_key: str, known: Sequence[str], where: str) -> UserNotFound:
    meant = nearest(access_key, known)
    return UserNotFound(
        code=int(ResponseCode.USER_NOT_EXIST),
        server=where,
        what=f"account {access_key!r} does not exist on {where}.",
        next_step=f"Did you mean {meant!r}?" if meant else "See which do: steelyard access account ls",
    )


def _check_keys(access_key: str, secret: str | None) -> None:
    if secret is None:
        raise ConfigurationError(
            f"account {access_key!r} is new and has no secret", next_step="give one with --secret-stdin"
        )
    if min(len(access_key), len(secret)) < _SHORTEST:
        raise ConfigurationError(
            f"the name or the secret of account {access_key!r} is too short",
            next_step=f"brokers want at least {_SHORTEST} characters of each",
        )


def _main_file(files: Sequence[AccountFile], server: Server) -> str:
    found = [file.path for file in files if file.path.endswith(_MAIN_FILE)] or [file.path for file in files]
    if not found:
        raise ConfigurationError(f"{server} tells no file of accounts", next_step="name one with --file")
    return found[0]


def _list(words: Sequence[str] | None) -> str | None:
    return None if words is None else ",".join(words) or _NO_ENTRIES


def _plain(account: Account) -> PlainAccount:
    return PlainAccount(
        account.access_key or "",
        account.admin,
        account.default_topic,
        account.default_group,
        account.topics or (),
        account.groups or (),
        (account.addresses or "").strip() or None,
    )
