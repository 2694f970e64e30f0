"""What a broker on the open net meets: noise, halves, lines that crawl, peers that never read, pulls by the thousand.

Each time it lives, keeps its limits, and serves whoever behaves.
"""

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice

import pytest
from msgspec import structs
from tests.fuzzing import Dice, mutations, rounds
from tests.golden_frames import golden_frames
from tests.serve.line import Line, pull_all, pull_command, send, send_command
from tests.waiting import until

from steelyard.net.limits import LineLimits
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from steelyard.wire.headers.send import SendShort

_PARKED = 10_000


class Lines(ExitStack):
    """Opens lines, and closes all of them at the end."""

    def to(self, address: str, count: int) -> list[Line]:
        """Open so many lines."""
        return [self.enter_context(Line(address)) for _ in range(count)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run a cluster that loses its patience quickly."""
    limits = LineLimits(frame_ms=500, stall_ms=500, idle_ms=30_000)
    with Cluster(limits=limits) as cluster:
        yield cluster


def assert_well(cluster: Cluster) -> None:
    """Send and pull as if nothing were the matter; ask the name server too."""
    with Line(cluster.brokers["broker-0"]) as line:
        sent = send(line, "health", b"fine")
        assert len(list(pull_all(line, "health"))) == sent.queue_offset + 1
    with Line(cluster.namesrv) as line:
        assert line.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {}).code == 0


def addresses(cluster: Cluster) -> list[str]:
    return [cluster.namesrv, cluster.brokers["broker-0"]]


def test_noise_closes_a_line_and_nothing_else(cluster: Cluster) -> None:
    chance = Dice(7)
    for address in addresses(cluster):
        for _ in range(200):
            with Line(address) as line:
                line.socket.sendall(chance.randbytes(chance.randrange(1, 300)))
                line.socket.shutdown(socket.SHUT_WR)
                assert line.is_closed_by_server()
    assert_well(cluster)


@pytest.mark.fuzz
def test_broken_frames_of_real_peers_meet_no_bug(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    corpus = [golden.frame for golden in golden_frames()]
    for address in addresses(cluster):
        for frame in (*corpus, *islice(mutations(corpus, seed=8), rounds())):
            with Line(address) as line, suppress(ConnectionError):
                line.socket.sendall(frame)
                line.socket.shutdown(socket.SHUT_WR)
                while line.socket.recv(1 << 16):
                    continue
    assert_well(cluster)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_every_code_with_nothing_in_it_is_answered(cluster: Cluster) -> None:
    for address in addresses(cluster):
        with Line(address) as line:
            for code in [*RequestCode, -1, 0, 99_999]:
                answer = line.ask(code, {})
                assert "bug" not in (answer.remark or ""), f"request {code}: {answer.remark}"
    assert_well(cluster)


def test_half_frames_are_given_up(cluster: Cluster) -> None:
    frame = encode_frame(send_command("orders", b"x" * 100))
    for cut in range(1, len(frame), 7):
        with Line(cluster.brokers["broker-0"]) as line:
            line.socket.sendall(frame[:cut])
    with Line(cluster.brokers["broker-0"]) as line:
        line.socket.sendall(frame[:-1])
        assert line.is_closed_by_server()
        assert_well(cluster)


def test_a_thousand_lines_that_crawl_are_closed_and_disturb_nobody(cluster: Cluster) -> None:
    _allow_handles(2_500)
    frame = encode_frame(send_command("orders", b"x" * 100))
    with Lines() as lines:
        crawling = set(lines.to(cluster.brokers["broker-0"], 1_000))
        for byte in frame:
            for line in list(crawling):
                try:
                    line.socket.sendall(bytes((byte,)))
                except OSError:
                    crawling.remove(line)
            assert_well(cluster)
            if not crawling:
                break
        assert not crawling, "a line of a byte now and then was never closed"


def test_ten_thousand_waiting_pulls_are_all_answered() -> None:
    # With patience: lines are read one after the other here, and the last one has to wait for its turn.
    with Cluster() as cluster, Line(cluster.brokers["broker-0"]) as sender, Lines() as opened:
        address = cluster.brokers["broker-0"]
        send(sender, "orders", b"first")
        lines = opened.to(address, 20)
        asked = [[pull_command("orders", 1, wait_ms=45_000) for _ in range(_PARKED // 20)] for _ in lines]
        for line, pulls in zip(lines, asked, strict=True):
            line.tell(*pulls)
        assert_well(cluster)
        send(sender, "orders", b"second")
        for line, pulls in zip(lines, asked, strict=True):
            assert {line.answer_to(pull).code for pull in pulls} == {0}
        assert_well(cluster)


def test_a_peer_that_never_reads_is_closed_and_the_others_are_served(cluster: Cluster) -> None:
    address = cluster.brokers["broker-0"]
    with Line(address) as line:
        for _ in range(32):
            send(line, "orders", b"x" * 60_000)
    with Lines() as lines:
        deaf = lines.to(address, 5)
        for line in deaf:
            line.socket.settimeout(0.05)
            with suppress(OSError):  # once nobody takes more from it
                for _ in range(100):
                    line.tell(*(pull_command("orders", 0) for _ in range(100)))
        assert_well(cluster)
        until(lambda: all(map(_is_cut, deaf)))
    assert_well(cluster)


def _is_cut(line: Line) -> bool:
    try:
        line.socket.send(b"\0")
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def _allow_handles(count: int) -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, most), most))


@pytest.mark.parametrize("header_type", HeaderType)
def test_properties_that_are_far_too_long_are_refused_and_the_others_on_the_line_go_on(header_type: HeaderType) -> None:
    fields = SendShort("senders", "orders", "TBW102", 4, 0, 0, 0, 0, properties="p\x01" + "山" * 30_000)
    sends = [send_command("orders", b"before"), Command(310, fields, b"x", opaque=0), send_command("orders", b"after")]
    asked = [structs.replace(each, header_type=header_type) for each in sends]
    with Cluster() as cluster, Line(cluster.brokers["broker-0"]) as line:
        line.tell(*asked)
        assert [line.answer_to(each).code for each in asked] == [0, 13, 0]
