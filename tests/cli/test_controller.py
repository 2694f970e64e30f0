"""`steelyard controller`: who leads is found by itself, and no master changes and nobody is forgotten unasked."""

import json
from collections.abc import Iterator

import pytest
from tests.cli.stand_in import Server, apache

from steelyard.cli.frame.exits import Exit
from steelyard.cli.main import main
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.replicas import Epoch, Epochs, Following, Replica, ReplicaSet, ReplicaSets, Replication
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.controllers import ControllerAnswer, ElectMaster, ElectMasterAnswer, ForgetBroker

Captured = pytest.CaptureFixture[str]


class Controller(Server):
    """A controller of 5.5.0 that knows one broker."""

    def __init__(self) -> None:
        super().__init__(settings={"scanNotActiveBrokerInterval": "5000", "controllerDLegerGroup": "group1"})
        self.master, self.epoch = 1, 1
        self.replicas = {number: Replica(broker_name="broker-a", broker_id=number, alive=True) for number in (1, 2)}
        self.in_sync = {1, 2}
        self.answers |= {
            Code.CONTROLLER_GET_METADATA_INFO: self._who,
            Code.CONTROLLER_GET_SYNC_STATE_DATA: self._tell,
            Code.CONTROLLER_ELECT_MASTER: self._elect,
            Code.CLEAN_BROKER_DATA: self._forget,
            Code.GET_CONTROLLER_CONFIG: lambda asked: answer_to(asked, body=encode_settings(self.settings)),
            Code.UPDATE_CONTROLLER_CONFIG: self._set,
        }

    def _who(self, asked: Command) -> Command:
        fields = ControllerAnswer("group1", "n0", self.address, is_leader=True, peers=f"n0:{self.address};n1:h:1")
        return answer_to(asked, fields=fields)

    def _tell(self, asked: Command) -> Command:
        names = decode_body(tuple[str, ...], asked.body)
        if "broker-a" not in names or not self.replicas:
            return answer_to(asked, body=encode_body(ReplicaSets()))
        parts = {
            is_in: tuple(r for n, r in self.replicas.items() if (n in self.in_sync) is is_in) for is_in in (True, False)
        }
        told = ReplicaSet(in_sync=parts[True], behind=parts[False], master_id=self.master, master_epoch=self.epoch)
        return answer_to(asked, body=encode_body(ReplicaSets(brokers={"broker-a": told})))

    def _elect(self, asked: Command) -> Command:
        given = asked.header(ElectMaster)
        assert (given.cluster_name, given.designate_elect) == ("main", True)
        self.master, self.epoch = given.broker_id, self.epoch + 1
        return answer_to(asked, fields=ElectMasterAnswer(self.master, f"10.0.0.{self.master}:10911", self.epoch, 2))

    def _forget(self, asked: Command) -> Command:
        given = asked.header(ForgetBroker)
        ids = given.broker_controller_ids_to_clean
        gone = [int(each) for each in ids.split(";")] if ids else list(self.replicas)
        if any(self.replicas[each].alive for each in gone) and not given.is_clean_living_broker:
            return answer_to(asked, ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark="it is alive")
        for each in gone:
            del self.replicas[each]
        return answer_to(asked)

    def _set(self, asked: Command) -> Command:
        self.settings |= decode_settings(asked.body)
        return answer_to(asked)


class Follower(Server):
    """A process of a broker, which is master or follows one."""

    def __init__(self, is_master: bool, log_end: int) -> None:
        super().__init__(log_end=log_end)
        following = None if is_master else Following(read_ms=1_794_835_095_846, bytes_a_second=36)
        told = Replication(is_master=is_master, end=log_end, following=following)
        epochs = Epochs(epochs=(Epoch(epoch=1, start=0, end=700), Epoch(epoch=2, start=700, end=(1 << 63) - 1)))
        self.answers |= {
            Code.GET_BROKER_HA_STATUS: lambda asked: answer_to(asked, body=encode_body(told)),
            Code.GET_BROKER_EPOCH_CACHE: lambda asked: answer_to(asked, body=encode_body(epochs)),
        }


class Desk:
    """A terminal at which an administrator sits."""

    def __init__(self, namesrv: str, capsys: Captured) -> None:
        self._namesrv, self._capsys = namesrv, capsys

    def type(self, *words: str) -> tuple[int, str, str]:
        """Type a command; return how it ends, what it answers and what it says."""
        code = main([*words, "--namesrv", self._namesrv])
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
def desk(controller: Controller, capsys: Captured) -> Iterator[Desk]:
    master, replica = Follower(True, 1_000), Follower(False, 900)
    with apache({"broker-a": {0: master, 2: replica}}, controller) as namesrv:
        for number, server in ((1, master), (2, replica)):
            server.settings["controllerAddr"] = controller.address
            known = controller.replicas[number]
            controller.replicas[number] = Replica(
                broker_name=known.broker_name, broker_id=number, alive=True, address=server.address
            )
        yield Desk(namesrv, capsys)


def test_where_controllers_are_is_learnt_from_brokers_or_said(desk: Desk, controller: Controller) -> None:
    for words in ([], ["--controller", controller.address]):
        code, out, _ = desk.type("controller", "show", *words, "--json")
        assert code == 0
        assert json.loads(out) == {
            "controller": controller.address,
            "leads": True,
            "leader": controller.address,
            "group": "group1",
            "peers": [f"n0:{controller.address}", "n1:h:1"],
            "problem": None,
        }


def test_one_of_two_controllers_that_is_away_is_listed_with_its_problem(desk: Desk, controller: Controller) -> None:
    code, out, _ = desk.type("controller", "show", "--controller", f"{controller.address};127.0.0.1:1", "--json")
    assert [json.loads(line)["problem"] for line in out.splitlines()] == [
        None,
        "127.0.0.1:1 cannot be reached (connection refused)",
    ]
    assert code == 0
    assert desk.type("controller", "replicas", "--controller", f"127.0.0.1:1;{controller.address}")[0] == 0


def test_nobody_there_and_no_controller_are_told_apart(desk: Desk, cluster: Cluster, capsys: Captured) -> None:
    assert desk.type("controller", "show", "--controller", "127.0.0.1:1")[0] == Exit.UNREACHABLE
    code, _, said = desk.type("controller", "show", "--controller", cluster.namesrv)
    assert (code, f"{cluster.namesrv} is no controller" in said) == (Exit.REFUSED, True)
    code, _, said = Desk(cluster.namesrv, capsys).type("controller", "replicas")
    assert (code, "has a controller; Apache RocketMQ has them from 5.0 on" in said) == (Exit.NOT_FOUND, True)


def test_replicas_are_listed_with_who_may_become_master(desk: Desk, controller: Controller) -> None:
    controller.in_sync = {1}
    code, out, _ = desk.type("controller", "replicas", "broker-a", "--output", "csv")
    first, second = (controller.replicas[number].address for number in (1, 2))
    assert (code, out.splitlines()) == (
        0,
        [
            "broker,id,address,master,in_sync,alive,master_epoch",
            f"broker-a,1,{first},true,true,true,1",
            f"broker-a,2,{second},false,false,true,1",
        ],
    )
    assert desk.type("controller", "replicas", "broker-z")[0] == Exit.NOT_FOUND


def test_a_broker_shows_how_its_replicas_follow_and_what_the_controller_knows(desk: Desk) -> None:
    code, out, _ = desk.type("broker", "replicas", "broker-a", "--output", "json")
    told = [
        [row[key] for key in ("id", "role", "log_end", "behind_bytes", "heard_at", "controller_id", "in_sync")]
        for row in json.loads(out)
    ]
    assert (code, told) == (
        0,
        [
            [0, "master", 1_000, None, None, 1, True],
            [2, "replica", 900, 100, "2026-11-16T13:18:15.846Z", 2, True],
        ],
    )
    assert desk.type("broker", "epochs", "broker-a", "--output", "csv")[1] == "epoch,start,end\n1,0,700\n2,700,\n"
    assert desk.type("broker", "show", "broker-a", "--id", "2", "--output", "json")[0] == 0


def test_a_master_is_elected_only_if_that_is_wanted(desk: Desk, controller: Controller) -> None:
    code, _, said = desk.type("controller", "elect", "broker-a", "--id", "2")
    assert (code, "would become master instead of 1" in said, "lost" in said) == (Exit.USAGE, True, False)
    controller.in_sync = {1}
    assert (
        "it does not have all messages: some would be lost"
        in desk.type("controller", "elect", "broker-a", "--id", "2")[2]
    )
    assert controller.master == 1
    code, out, _ = desk.type("controller", "elect", "broker-a", "--id", "2", "--yes", "--json")
    assert (code, json.loads(out)["master_epoch"], controller.master) == (0, 2, 2)
    assert desk.type("controller", "elect", "broker-a", "--id", "2")[1] == "broker-a 2 is the master already\n"
    assert desk.type("controller", "elect", "broker-a", "--id", "9", "--yes")[0] == Exit.NOT_FOUND


def test_only_what_is_gone_is_forgotten(desk: Desk, controller: Controller) -> None:
    code, _, said = desk.type("controller", "forget", "broker-a", "--id", "2", "--yes")
    assert (code, "is alive; stop it first, or say --even-alive" in said) == (Exit.USAGE, True)
    gone = controller.replicas[2]
    controller.replicas[2] = Replica(broker_name="broker-a", broker_id=2, alive=False, address=gone.address)
    controller.in_sync = {2}
    code, _, said = desk.type("controller", "forget", "broker-a", "--id", "2")
    assert (code, "and nobody that is left has all messages; if that is wanted" in said) == (Exit.USAGE, True)
    assert desk.type("controller", "forget", "broker-a", "--id", "2", "--yes")[0] == 0
    assert set(controller.replicas) == {1}
    assert desk.type("controller", "forget", "broker-a", "--id", "2", "--yes")[0] == Exit.NOT_FOUND
    assert desk.type("controller", "forget", "broker-a", "--even-alive", "--yes")[0] == 0
    assert desk.type("controller", "forget", "broker-a", "--yes")[0] == Exit.NOT_FOUND


def test_settings_show_what_they_were_and_are(desk: Desk, controller: Controller) -> None:
    change = ["controller", "config", "set", "scanNotActiveBrokerInterval=3000", "--output", "csv"]
    table = f"controller,name,before,after\n{controller.address},scanNotActiveBrokerInterval,5000,3000\n"
    assert desk.type(*change, "--dry-run") == (0, table, "nothing was changed\n")
    assert desk.type(*change) == (0, table, "")
    assert controller.settings["scanNotActiveBrokerInterval"] == "3000"
    assert desk.type("controller", "config", "show", "--output", "csv")[1].count("\n") == 3
    code, _, said = desk.type("controller", "config", "set", "scanNotActiveBroker=1")
    assert (code, "Did you mean 'scanNotActiveBrokerInterval'?" in said) == (Exit.NOT_FOUND, True)
    assert desk.type("controller", "config", "set", "nothing")[0] == Exit.USAGE
