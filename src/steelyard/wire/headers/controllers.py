"""Headers of the controllers of 5.x, which elect masters."""

from steelyard.wire.fields import Header
from steelyard.wire.numbers import Int32, Int64

__all__ = ["ControllerAnswer", "ElectMaster", "ElectMasterAnswer", "ForgetBroker"]


class ElectMaster(Header, frozen=True):
    """1002 CONTROLLER_ELECT_MASTER: this replica shall be the master; by an administrator it is designated."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    designate_elect: bool
    invoke_time: Int64 | None = None


class ElectMasterAnswer(Header, frozen=True):
    """The answer to 1002: who is the master now."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ControllerAnswer(Header, frozen=True):
    """The answer to 1005 CONTROLLER_GET_METADATA_INFO: who leads; peers are divided by ``;``."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool | None = None
    peers: str | None = None


class ForgetBroker(Header, frozen=True):
    """1011 CLEAN_BROKER_DATA: forget a broker's replicas, or some of them; ids are divided by ``;``."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None
