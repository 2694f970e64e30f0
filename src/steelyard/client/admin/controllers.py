"""Controllers, the servers of Apache RocketMQ 5 that elect masters: who leads, what they know, and what they are told.

Their addresses are given, or learnt from the brokers, which are started with them. Questions go to any of them, orders
to the one that leads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import BrokerCare, Change, missing_setting
from steelyard.client.admin.servers import Lacking, lacking
from steelyard.errors import (
    BrokerNotFound,
    ConfigurationError,
    NotFound,
    SteelyardError,
    error_for,
)
from steelyard.net.addresses import parse_addresses
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.replicas import Replica, ReplicaSets
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Fields
from steelyard.wire.headers.controllers import ControllerAnswer, ElectMaster, ElectMasterAnswer, ForgetBroker

__all__ = ["Controller", "Controllers", "Elected", "KnownReplica"]

_SETTING = "controllerAddr"
_NO_CONTROLLER = Lacking("is no controller", "Apache RocketMQ has them from 5.0 on: give the address of one")
_NOTHING: Fields = {}


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller; ``problem`` says why it does not tell."""

    address: str
    group: str | None = None
    is_leader: bool | None = None
    leader: str | None = None
    """The address of the one that leads, as this one believes."""
    peers: tuple[str, ...] = ()
    """All of the group, by the addresses that they speak to each other at."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class KnownReplica:
    """A process of a broker, as a controller knows it."""

    broker: str
    broker_id: int
    """The id that the controller gave it: from 1 on, for masters too."""
    address: str
    is_master: bool
    in_sync: bool
    """Whether it may become master without losing anything."""
    is_alive: bool | None
    master_epoch: int | None
    """How many masters there were."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The new master of a broker."""

    broker: str
    broker_id: int | None
    address: str | None
    master_epoch: int | None


class Controllers(BrokerCare):
    """What an administrator does with controllers."""

    async def controllers(self, at: str | None = None) -> list[Controller]:
        """List the controllers and who leads; those at the given addresses, or those that brokers know."""
        addresses = await self._controllers_at(at)
        found = await together(self._controller, addresses)
        if all(each.problem for each in found):
            # The reason is worth an error of its own kind: nobody is there, or it is no controller.
            await self._ask_controller(addresses[0], RequestCode.CONTROLLER_GET_METADATA_INFO)
        return found

    async def controller_config(self, at: str | None = None) -> dict[str, dict[str, str]]:
        """Return the settings of each controller by its address, in the server's own words."""

        async def ask(address: str) -> tuple[str, dict[str, str]]:
            answer = await self._ask_controller(address, RequestCode.GET_CONTROLLER_CONFIG)
            return address, decode_settings(answer.body)

        return dict(await together(ask, await self._controllers_at(at)))

    async def plan_controller_config(
        self, settings: Mapping[str, str], at: str | None = None
    ) -> dict[str, list[Change]]:
        """Tell what settings would change from and to; a name that a controller does not list is an error."""
        known = await self.controller_config(at)
        for address, there in known.items():
            for name in settings:
                if name not in there:
                    raise missing_setting(name, there, address)
        return {
            address: [Change(name, there[name], value) for name, value in settings.items()]
            for address, there in known.items()
        }

    async def set_controller_config(
        self, settings: Mapping[str, str], at: str | None = None
    ) -> dict[str, list[Change]]:
        """Change some settings of every controller while it runs, and tell what they were and are."""
        planned = await self.plan_controller_config(settings, at)
        body = encode_settings(settings)
        await together(
            lambda each: self._ask_controller(each, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body), planned
        )
        now = await self.controller_config(at)
        return {
            address: [Change(each.name, each.before, now.get(address, {}).get(each.name, "")) for each in changes]
            for address, changes in planned.items()
        }

    async def known_replicas(self, brokers: Iterable[str] | None = None, at: str | None = None) -> list[KnownReplica]:
        """List the replicas of brokers as their controller knows them; of all brokers, if none are named."""
        names = sorted(await self._places()) if brokers is None else list(brokers)
        leader = await self._leader(at)
        body = encode_body(tuple(names))
        answer = await self._ask_controller(leader, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
        # Apache's answer is empty if it knows none of them.
        sets = decode_body(ReplicaSets, answer.body).brokers if answer.body else {}
        if brokers is not None:
            for name in names:
                if name not in sets:
                    raise _no_such_broker(name, leader)

        def known(name: str, replica: Replica, in_sync: bool) -> KnownReplica:
            return KnownReplica(
                name,
                replica.broker_id,
                replica.address or "",
                replica.broker_id == sets[name].master_id,
                in_sync,
                replica.alive,
                sets[name].master_epoch,
            )

        found = [
            known(name, replica, in_sync)
            for name, each in sets.items()
            for in_sync, replicas in ((True, each.in_sync), (False, each.behind))
            for replica in replicas
        ]
        return sorted(found, key=lambda each: (each.broker, each.broker_id))

    async def elect(self, broker: str, broker_id: int, *, cluster: str, at: str | None = None) -> Elected:
        """Have a controller make a replica the master of its broker."""
        asked = ElectMaster(cluster, broker, broker_id, designate_elect=True, invoke_time=now_ms())
        answer = await self._ask_controller(await self._leader(at), RequestCode.CONTROLLER_ELECT_MASTER, asked)
        told = answer.header(ElectMasterAnswer)
        return Elected(broker, told.master_broker_id, told.master_address, told.master_epoch)

    async def forget_broker(
        self,
        broker: str,
        *,
        cluster: str,
        broker_ids: Iterable[int] | None = None,
        even_alive: bool = False,
        at: str | None = None,
    ) -> None:
        """Have a controller forget a broker, or some of its replicas; those that are alive only if that is said."""
        ids = None if broker_ids is None else ";".join(map(str, broker_ids))
        asked = ForgetBroker(broker, cluster, ids, even_alive, invoke_time=now_ms())
        await self._ask_controller(await self._leader(at), RequestCode.CLEAN_BROKER_DATA, asked)

    # -- finding and asking -------------------------------------------------------------------------------------------

    async def _controllers_at(self, at: str | None) -> tuple[str, ...]:
        if at is not None:
            return parse_addresses(at)
        found: dict[str, None] = {}
        asked = await self._ask_all((await self._places()).values(), RequestCode.GET_BROKER_CONFIG)
        for place, answer in asked:
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=place.name)
            found.update(dict.fromkeys(filter(None, decode_settings(answer.body).get(_SETTING, "").split(";"))))
        if not found:
            raise NotFound(
                code=int(ResponseCode.QUERY_NOT_FOUND),
                server=str(self._connect),
                what=f"no broker of {self._connect} has a controller",
                next_step="Apache RocketMQ has them from 5.0 on; say where one is with --controller",
            )
        return parse_addresses(";".join(found))

    async def _controller(self, address: str) -> Controller:
        try:
            answer = await self._ask_controller(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            told = answer.header(ControllerAnswer)
        except SteelyardError as error:
            return Controller(address, problem=error.what)
        return Controller(
            address,
            told.group,
            told.is_leader,
            told.controller_leader_address,
            tuple(filter(None, (told.peers or "").split(";"))),
        )

    async def _leader(self, at: str | None) -> str:
        """Return the address of the controller that leads, as one that can be reached says."""
        found = await self.controllers(at)
        leaders = [each.leader for each in found if each.leader]
        if leaders:
            return leaders[0]
        raise ConfigurationError(
            f"no controller leads, as {', '.join(each.address for each in found)} says",
            next_step="see whether more than half of them run",
        )

    async def _ask_controller(
        self, address: str, code: RequestCode, fields: Fields = _NOTHING, body: bytes = b""
    ) -> Command:
        answer = await self._ask_at(address, code, fields, body)
        if answer.code == ResponseCode.SUCCESS:
            return answer
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise lacking(address, _NO_CONTROLLER)
        if answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            raise BrokerNotFound(
                answer.remark or "",
                code=answer.code,
                server=address,
                what=f"the controller at {address} does not know this broker ({answer.remark})",
                next_step="see which it knows: steelyard controller replicas",
            )
        raise error_for(answer.code, answer.remark or "", server=f"the controller at {address}")


def _no_such_broker(name: str, controller: str) -> BrokerNotFound:
    return BrokerNotFound(
        code=int(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST),
        server=controller,
        what=f"the controller at {controller} knows no broker {name!r}",
        next_step="see which it knows: steelyard controller replicas",
    )
