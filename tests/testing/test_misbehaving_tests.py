"""Tests that behave badly, and projects that have nothing to do with us: the plug-in breaks and hides nothing."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard import Message, Producer
from steelyard.errors import ConfigurationError, NotAsExpected
from steelyard.testing import Mq, MqAsync, cluster

pytest_plugins = ["pytester"]


def _run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_shop=text)
    return pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider", *options)


def test_a_project_with_an_mq_of_its_own_is_left_alone(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        import pytest

        @pytest.fixture
        def mq():
            return {"not": "ours"}

        def test_fails(mq):
            assert mq == 3

        def test_goes_on(mq):
            pass
        """,
        "--strict-markers",
        "-Werror",
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.no_fnmatch_line("*What mq saw*")


def test_a_test_may_stop_its_cluster_and_fail_afterwards(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        def test_stops(mq):
            mq.stop()

        def test_stops_and_fails(mq):
            mq.send("orders", b"1")
            mq.stop()
            assert False
        """,
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*What mq saw*", "it was stopped, and cannot be inspected any more"])


def test_what_a_fixture_that_failed_left_open_is_no_second_error(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        import pytest
        from steelyard import Message, Producer

        left = []

        @pytest.fixture
        def shop(mq):
            left.append(Producer(mq.address, group="shop").open())
            left[0].send(Message("orders", b"1"))
            raise RuntimeError("no shop today")

        def test_shop(shop):
            pass

        def test_close():
            left[0].close()
        """,
    )
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*no shop today*", "*What mq saw*", "orders has 1 message:"])


@pytest.mark.parametrize("brokers", ["'2'", "2.5", "True"])
def test_a_number_of_brokers_that_is_none_is_refused(pytester: pytest.Pytester, brokers: str) -> None:
    result = _run(pytester, f"import pytest\n@pytest.mark.mq(brokers={brokers})\ndef test_one(mq): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.mq takes a whole number of brokers*"])


def test_of_very_many_topics_some_are_told_about() -> None:
    with cluster() as mq:
        for number in range(25):
            mq.create_topic(f"topic-{number:02}", 1)
        output = mq.summary().splitlines()
    assert output[0] == "topic-00 has no messages"
    assert output[-1] == "and 5 more topics"


def test_threads_that_send_at_the_same_time_share_one_client() -> None:
    with cluster() as mq:
        _all_at_once(8, lambda: mq.send("orders", b"1"))
        assert len(mq.sent("orders")) == 8
        assert len(mq.admin.producers.list()) == 1


def _all_at_once(count: int, work: Callable[[], object]) -> None:
    """Call something in so many threads that begin together."""
    gate = threading.Barrier(count)

    def run() -> None:
        gate.wait()
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_loop_of_the_tests_own_may_send_many_at_the_same_time(mq: Mq) -> None:
    async def scenario() -> int:
        mq_async = MqAsync(mq)
        await asyncio.gather(*(mq_async.send("orders", b"1") for _ in range(20)))
        return len(await mq_async.sent("orders"))

    assert asyncio.run(scenario()) == 20


@pytest.mark.process
def test_pytest_does_not_compile_us_anew_where_we_are_installed(tmp_path: Path) -> None:
    installed = tmp_path / "installed" / "steelyard-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: steelyard\nVersion: 1\n", encoding="utf-8")
    (installed / "RECORD").write_text("steelyard/__init__.py,,\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text("[pytest11]\nsteelyard = steelyard.testing.plugin\n", encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(
        "import steelyard.serve.embedded as ours\n\n"
        "def test_loader(mq):\n    assert type(ours.__spec__.loader).__name__ == 'SourceFileLoader'\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_faults_of_a_shared_cluster_end_with_the_test(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        def test_leaves_faults(mq_cluster):
            mq_cluster.faults.kill_broker("broker-0")
            mq_cluster.faults.slow_broker(ms=3_600_000)
            assert False

        def test_next(mq_cluster):
            mq_cluster.send("orders", b"1")
            assert len(mq_cluster.sent("orders")) == 1
        """,
    )
    result.assert_outcomes(failed=1, passed=1)


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_is_told_that_the_cluster_is_not_its_own(mq: Mq) -> None:
    child = os.fork()
    if child == 0:
        try:
            mq.sent("orders")
        except ConfigurationError:
            mq.stop()
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    mq.send("orders", b"1")


def test_a_test_that_stops_the_clock_of_its_process_does_not_wait_for_ever(
    mq: Mq, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(mq.address) as producer:
        producer.send(Message("orders", b"1"))
        monkeypatch.setattr("time.monotonic", lambda: 7.0)
        with pytest.raises(NotAsExpected, match="nothing has 0 messages"):
            mq.wait_until_sent("nothing", timeout_s=0.05)
        with pytest.raises(NotAsExpected, match="still has clients"):
            mq.refuse_leaks()
        monkeypatch.undo()


def test_freezegun_is_asked_to_leave_our_clocks_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        freezegun="""
        asked = []

        def configure(extend_ignore_list):
            asked.extend(extend_ignore_list)
        """
    )
    result = _run(
        pytester,
        """
        import freezegun

        def test_time(mq):
            assert freezegun.asked == ["steelyard"]
        """,
    )
    result.assert_outcomes(passed=1)
