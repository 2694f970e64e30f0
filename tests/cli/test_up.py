"""`steelyard up` as people run it: a process that prints that it is ready, serves, and stops on a signal."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import pytest

from steelyard.cli.main import main
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import decode_settings
from steelyard.wire.bodies.heartbeat import ConsumerHeartbeat, HeartbeatBody, SubscriptionBody
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import RequestCode, ResponseCode
from tests import forkserver
from tests.serve.raw_connection import RawConnection, brokers_of, pull_all, send, send_command
from tests.waiting import LONGEST_S


@contextmanager
def up(*arguments: str, cwd: Path, python: Sequence[str] = ()) -> Iterator["subprocess.Popen[str]"]:
    command = [*(python or forkserver.python()), "-m", "steelyard", "up", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def ready(process: "subprocess.Popen[str]") -> tuple[str, dict[str, str]]:
    output = json.loads(line_of(process.stdout))
    assert list(output) == ["namesrv", "brokers", "dashboard"]
    return output["namesrv"], output["brokers"]


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_one_line_serves_and_stops_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    words = ("--json", "--port", "0", "--brokers", "2", "--data", "here")
    with up(*words, cwd=tmp_path, python=[sys.executable]) as process:
        name_server, brokers = ready(process)
        assert brokers_of(name_server, "TBW102") == set(brokers) == {"broker-0", "broker-1"}
        with RawConnection(brokers["broker-1"]) as connection:
            send(connection, "orders", b"hello")
            assert [record.body for record in pull_all(connection, "orders")] == [b"hello"]
            process.send_signal(how)
            assert connection.is_closed_by_server()
        rest, complaints = process.communicate(timeout=LONGEST_S)
        assert (process.returncode, rest, complaints) == (0, "", "")
    assert main(["store", "verify", str(tmp_path / "here" / "broker-1")]) == 0
    assert (tmp_path / "here" / "broker-1" / "steelyard" / "closed.json").exists()


@pytest.mark.process
def test_it_shows_people_where_everything_is(tmp_path: Path) -> None:
    with up("--port", "0", cwd=tmp_path) as process:
        lines = [line_of(process.stdout).split() for _ in range(5)]
        assert lines[0][:2] == ["name", "server"]
        assert lines[1][0] == "broker-0"
        assert lines[2] == ["messages", str(tmp_path / "steelyard-data")]
        assert lines[3][0] == "dashboard"
        assert lines[3][1].startswith("http://127.0.0.1:")
        assert lines[4][-1] == "Ctrl-C"
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST_S) == 0


@pytest.mark.process
def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    with up("--json", "--port", "0", "--memory", cwd=tmp_path) as process:
        _, brokers = ready(process)
        with RawConnection(brokers["broker-0"]) as connection:
            send(connection, "orders", b"hello")
        process.terminate()
        assert process.wait(LONGEST_S) == 0
    assert list(tmp_path.iterdir()) == []


def _beats(connection: RawConnection, client_id: str, topic: str) -> int:
    reported = ConsumerHeartbeat(group="billing", subscriptions=(SubscriptionBody(topic=topic, expression="*"),))
    body = encode_body(HeartbeatBody(client_id=client_id, consumers=(reported,)))
    return connection.request(RequestCode.HEART_BEAT, {}, body).code


@pytest.mark.process
def test_what_brokers_allow_is_reported_when_they_are_started(tmp_path: Path) -> None:
    strict = ("--no-auto-create-topics", "--refuse-duplicates", "--refuse-unequal", "--no-notices")
    with up("--json", "--port", "0", "--memory", "--no-dashboard", *strict, cwd=tmp_path) as process:
        _, brokers = ready(process)
        with RawConnection(brokers["broker-0"]) as connection, RawConnection(brokers["broker-0"]) as other:
            settings = decode_settings(connection.request(RequestCode.GET_BROKER_CONFIG, {}).body)
            assert settings["autoCreateTopicEnable"] == settings["notifyConsumerIdsChangedEnable"] == "false"
            command = send_command("orders", b"hello")
            connection.send(command)
            assert connection.response_to(command).code == ResponseCode.TOPIC_NOT_EXIST
            assert _beats(connection, "one@1", "orders") == 0
            assert _beats(other, "one@1", "orders") == ResponseCode.SYSTEM_ERROR, "it has the id of another"
            assert _beats(other, "two@2", "bills") == ResponseCode.SYSTEM_ERROR, "it wants something else"
            assert _beats(other, "two@2", "orders") == 0


@pytest.mark.process
def test_a_topic_that_a_send_makes_has_as_many_queues_as_brokers_are_set_up(tmp_path: Path) -> None:
    for number, words in enumerate([(), ("--default-topic-queues", "2")]):
        with up("--json", "--port", "0", "--no-dashboard", "--data", "here", *words, cwd=tmp_path) as process:
            _, brokers = ready(process)
            with RawConnection(brokers["broker-0"]) as connection:
                send(connection, f"orders-{number}", b"hello")
                answer = connection.request(RequestCode.GET_TOPIC_CONFIG, {"topic": f"orders-{number}"})
                assert decode_body(TopicConfig, answer.body).write_queues == (2 if words else 4)
            process.terminate()
            assert process.wait(LONGEST_S) == 0


@pytest.mark.process
def test_ports_follow_the_first(tmp_path: Path) -> None:
    port = _free_ports(9)
    arguments = (
        "--json",
        "--port",
        str(port),
        "--brokers",
        "2",
        "--broker-name",
        "shop",
        "--cluster",
        "blue",
        "--memory",
    )
    with up(*arguments, cwd=tmp_path) as process:
        assert ready(process) == (
            f"127.0.0.1:{port}",
            {"shop-0": f"127.0.0.1:{port + 4}", "shop-1": f"127.0.0.1:{port + 8}"},
        )


@pytest.mark.process
def test_a_name_server_alone_is_joined_by_a_broker_alone(tmp_path: Path) -> None:
    with up("--json", "--port", "0", "--namesrv-only", "--memory", cwd=tmp_path) as names:
        name_server, brokers = ready(names)
        assert brokers == {}
        with up(
            "--json", "--port", "0", "--join", name_server, "--broker-name", "a", "--memory", cwd=tmp_path
        ) as broker:
            assert ready(broker)[0] == name_server
            assert brokers_of(name_server, "TBW102") == {"a"}
            broker.terminate()
            assert broker.wait(LONGEST_S) == 0
            assert brokers_of(name_server, "TBW102") == set()


def test_a_used_port_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["up", "--port", str(port), "--data", str(tmp_path / "new")]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"steelyard: port {port} of 127.0.0.1 is in use; stop what listens there, or give another port\n"
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.process
def test_the_dashboard_has_the_same_token_after_a_restart(tmp_path: Path) -> None:
    tokens = []
    for words in (("--data", "here"), ("--data", "here"), ("--memory",)):
        with up("--json", "--port", "0", *words, cwd=tmp_path) as process:
            tokens.append(json.loads(line_of(process.stdout))["dashboard"].partition("token=")[2])
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LONGEST_S)
    assert tokens[0] == tokens[1] != tokens[2]
    assert (tmp_path / "here" / "dashboard" / "token").read_text() == f"{tokens[0]}\n"


@pytest.mark.process
def test_a_locked_directory_is_one_sentence(tmp_path: Path) -> None:
    with up("--json", "--port", "0", cwd=tmp_path, python=[sys.executable]) as first:
        ready(first)
        with up("--json", "--port", "0", cwd=tmp_path) as second:
            out, complaints = second.communicate(timeout=LONGEST_S)
            assert (second.returncode, out) == (1, "")
        (sentence,) = complaints.splitlines()
        assert f"is in use by process {first.pid}; stop that process, or use another directory" in sentence


def test_a_directory_that_cannot_be_had_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert main(["up", "--port", "0", "--data", str(tmp_path / "file")]) == 1
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("steelyard: open of ")
    if os.getuid() != 0:  # root may write everywhere
        (tmp_path / "shut").mkdir(mode=0o555)
        assert main(["up", "--port", "0", "--data", str(tmp_path / "shut" / "new")]) == 1
        assert "permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--host", "0.0.0.0"],
            "can be reached by other machines, and there is no password; add --insecure-allow-remote",
        ),
        (["--host", "0.0.0.0", "--insecure-allow-remote"], "clients cannot connect to 0.0.0.0; tell them where to"),
        (["--memory", "--data", "x"], "--memory and --data exclude each other"),
        (["--join", "a:1", "--namesrv-only"], "--join and --namesrv-only exclude each other"),
        (["--join", "nowhere"], "'nowhere' is not an address; write host:port"),
        (["--brokers", "0", "--join", "a:1"], "there is nothing to run"),
        (["--brokers", "-1"], "-1 brokers are not possible"),
        (["--port", "65535"], "port 65535 is not possible"),
        (["--flush", "never"], "'never' is not one of"),
        (["--broker-name", "../b"], "../b"),
        (["--default-topic-queues", "0"], "default_topic_queues is 0; give 1 to 65536"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["up", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (sentence,) = output.err.splitlines()
    assert why in sentence
    assert list(tmp_path.iterdir()) == []


def _free_ports(count: int) -> int:
    """Find so many free ports in a row, and return the first: below those that the system gives to whoever asks."""
    start = 20_000 + os.getpid() % 1_000 * 10
    return next(first for first in range(start, 32_000) if all(_is_free(first + step) for step in range(count)))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.mark.process
def test_the_dashboard_is_there_and_goes_with_it(tmp_path: Path) -> None:
    with up("--json", "--port", "0", "--memory", cwd=tmp_path) as process:
        output = json.loads(line_of(process.stdout))
        where = urlsplit(output["dashboard"])
        connection = HTTPConnection(where.netloc, timeout=LONGEST_S)
        for path, status, part in (
            (f"/?{where.query}", 303, b""),
            ("/metrics", 200, b"rocketmq_"),
            ("/", 401, b"Token"),
        ):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == status
            assert part in answer.read()
        connection.close()
        process.terminate()
        rest, complaints = process.communicate(timeout=LONGEST_S)
        assert (process.returncode, rest, complaints) == (0, "", "")


@pytest.mark.process
def test_no_dashboard_is_served_if_it_is_not_wanted(tmp_path: Path) -> None:
    with up("--json", "--port", "0", "--memory", "--no-dashboard", cwd=tmp_path) as process:
        assert json.loads(line_of(process.stdout))["dashboard"] is None


def test_a_dashboard_port_in_use_is_reported_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        assert main(["up", "--port", "0", "--dashboard-port", taken, "--data", str(tmp_path / "new")]) == 1
    assert f"port {taken} of 127.0.0.1 is in use" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
