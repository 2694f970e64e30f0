"""pytest finds the fixtures, isolates tests, and prints what happened."""

import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.serve.embedded import Cluster

pytest_plugins = ["pytester"]

_SHOP = """
from steelyard import Consumer, Message, Producer

def run_billing_once(address, wanted):
    billed = []
    consumer = Consumer(address, "billing", start_from="first")

    @consumer.handles("orders")
    def bill(message):
        billed.append(message.body)

    with consumer:
        while len(billed) < wanted:
            pass
"""


def _run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(shop=_SHOP, test_shop=text)
    return pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider", *options)


def test_a_test_has_a_cluster_of_its_own(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        from shop import run_billing_once

        addresses = []

        def test_billing(mq):
            mq.send("orders", b'{"id": 1}')
            run_billing_once(mq.address, 1)
            assert mq.handled("orders", group="billing") == 1
            mq.clock.advance(minutes=30)
            mq.faults.slow_broker("broker-0", ms=800)
            addresses.append(mq.address)

        def test_another(mq):
            mq.assert_nothing_sent()
            assert mq.address not in addresses
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_failing_count_says_what_became_of_each_message(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        def test_billing(mq):
            mq.send("orders", b'{"id": 1}', tags="paid")
            assert mq.handled("orders", group="billing") == 1

        def test_a_plain_assert(mq):
            mq.send("orders", b"seen", delay_s=60)
            assert 1 == 2
        """,
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E * assert 0 == 1",
            "E * group billing handled 0 of 1 message of orders:",
            "E *   waits  broker-0 queue * offset 0  b'{\"id\": 1}' tags=paid",
            "E * members of billing online: none",
            "E * no member of group billing ever connected",
            "*What mq saw*",
            "orders has 1 message:",
            "*E * assert 1 == 2",
            "*What mq saw*",
            "delayed messages to orders: 1",
        ]
    )


def test_a_failed_expectation_points_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        def test_order(mq):
            mq.send("orders", b"1")
            mq.assert_sent("orders", b"2")
        """,
    )
    result.stdout.fnmatch_lines(
        [">*mq.assert_sent(*", "E *orders has no message with the body b'2'*", "test_shop.py:3: *"]
    )
    result.stdout.no_fnmatch_line("*expecting.py*")


def test_what_a_test_leaves_open_is_an_error_unless_it_is_allowed(pytester: pytest.Pytester) -> None:
    text = """
        import pytest
        from steelyard import Message, Producer

        left = []

        @pytest.fixture(scope="module", autouse=True)
        def close():
            yield
            for producer in left:
                producer.close()

        def leave(mq):
            producer = Producer(mq.address, group="shop").open()
            producer.send(Message("orders", b"1"))
            left.append(producer)

        def test_leaves_a_producer(mq):
            leave(mq)

        @pytest.mark.mq(leaks=False)
        def test_may(mq):
            leave(mq)

        def test_fails_anyway(mq):
            leave(mq)
            assert False
        """
    result = _run(pytester, text)
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["E * producer *of group shop, connected to broker-0", "*mark.mq(leaks=False)*"])
    pytester.makeini("[pytest]\nmq_leaks = false")
    _run(pytester, text).assert_outcomes(passed=2, failed=1)


def test_how_many_brokers_there_are_can_be_said_for_one_test_and_for_all(pytester: pytest.Pytester) -> None:
    text = """
        import pytest

        def test_all(mq, mq_cluster):
            assert len(mq.brokers) == len(mq_cluster.brokers) == {}

        @pytest.mark.mq(brokers=3)
        def test_one(mq):
            assert list(mq.brokers) == ["broker-0", "broker-1", "broker-2"]
        """
    _run(pytester, text.format(1)).assert_outcomes(passed=2)
    _run(pytester, text.format(2), "--mq-brokers=2").assert_outcomes(passed=2)
    pytester.makeini("[pytest]\nmq_brokers = 2")
    _run(pytester, text.format(2)).assert_outcomes(passed=2)


def test_a_mark_that_says_something_else_is_refused(pytester: pytest.Pytester) -> None:
    text = "import pytest\n@pytest.mark.mq(broker=2)\ndef test_one(mq): ..."
    result = _run(pytester, text, "--strict-markers")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.mq takes brokers, name_servers, leaks by name*"])


def test_a_session_shares_one_cluster_that_is_not_emptied(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        def test_first(mq_cluster):
            mq_cluster.send("orders", b"1")

        def test_second(mq_cluster, mq):
            assert len(mq_cluster.sent("orders")) == 1
            mq.assert_nothing_sent()
        """,
    )
    result.assert_outcomes(passed=2)


def test_coroutines_are_tested_without_any_other_plug_in(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        import asyncio
        from steelyard import Message
        from steelyard.aio import Producer

        def test_later(mq_async):
            async def story():
                async with Producer(mq_async.connect) as producer:
                    await producer.send(Message("orders", b"1"), delay_s=60)
                assert await mq_async.sent("orders") == []
                mq_async.clock.advance(minutes=1)
                await mq_async.assert_sent("orders", b"1", count=1)
                with mq_async.faults.drop_acks(count=1):
                    await mq_async.wait_until_sent("orders")
                assert mq_async.name("orders") == "orders"

            asyncio.run(story())
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_cluster_that_is_there_is_used_under_names_of_ones_own(pytester: pytest.Pytester) -> None:
    text = """
        import pytest

        @pytest.mark.parametrize("turn", [1, 2])
        def test_external(mq_external, turn):
            mq_external.assert_nothing_sent()
            mq_external.send("orders", b"1")
            mq_external.assert_sent("orders", b"1", count=1)
        """
    skipped = _run(pytester, text, "-rs")
    skipped.assert_outcomes(skipped=2)
    skipped.stdout.fnmatch_lines(["*no cluster is given: --mq-external HOST:PORT*"])
    with Cluster() as there:
        _run(pytester, text, f"--mq-external={there.namesrv}").assert_outcomes(passed=2)


@pytest.mark.process
def test_workers_in_parallel_have_clusters_of_their_own(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
        import pytest

        @pytest.mark.parametrize("number", range(12))
        def test_alone(mq, mq_cluster, number):
            mq.send("orders", str(number))
            assert [message.body for message in mq.sent("orders")] == [b"%d" % number]
            mq_cluster.send("orders", b"1")
        """,
        "-n2",
    )
    result.assert_outcomes(passed=12)


@pytest.mark.process
def test_the_plug_in_loads_nothing_before_a_fixture_is_used() -> None:
    code = (
        "import sys, steelyard.testing.plugin; print(*(name for name in sys.modules if name.startswith('steelyard')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split() if "." in name}
    assert rooms == {"errors", "model", "testing", "version"}


@pytest.mark.process
def test_clusters_work_without_pytest(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["pytest"] = None
from steelyard.testing import cluster
with cluster() as mq:
    mq.send("orders", b"1")
    print(len(mq.sent("orders")))
"""
    script = tmp_path / "no_pytest.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
