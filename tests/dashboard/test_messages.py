"""Messages on the page: found in every way, shown by themselves, and handled again."""

import shlex
import time
from base64 import b64decode
from datetime import UTC, datetime
from queue import Queue as Line
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import Admin, Consumer, Message, Producer, PullConsumer
from steelyard.dashboard.message_view import body_view, message_row
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.model import Queue, StoredMessage
from steelyard.net.clock import now_ms
from steelyard.serve.embedded import Cluster
from tests.dashboard.http_client import get, http_request, post
from tests.docs.commands import Shown, command_complaint

_TOPIC = "orders"
_NONSENSE = (
    "",
    "topic=orders&by=smell",
    "topic=orders&by=key",
    "topic=orders&by=time&from=soon",
    "topic=orders&queue=nowhere:1",
    "topic=orders&count=0",
    "by=id&id=xyz",
    "topic=nosuch",
)


@pytest.fixture
def sent(cluster: Cluster) -> list[Any]:
    """Send twenty messages, each with a key and a time of its own: the order of what two brokers store is by time."""

    def send(producer: Producer, message: Message) -> Any:
        began_ms = now_ms()
        while now_ms() == began_ms:
            time.sleep(0.000_2)
        return producer.send(message)

    with Producer(cluster.namesrv) as producer:
        return [
            send(
                producer,
                Message(
                    _TOPIC,
                    f'{{"order": {number}, "state": "{"Paid" if number % 2 else "open"}"}}'.encode(),
                    tags="paid" if number % 2 else "open",
                    keys=[f"order-{number}", "all"],
                    properties={"region": "eu"},
                ),
            )
            for number in range(20)
        ]


def found(dashboard: Dashboard, **asked: object) -> Any:
    """Look for messages, and check the command line that does the same."""
    answer = get(dashboard, f"/api/messages?{urlencode({name.strip('_'): value for name, value in asked.items()})}")
    assert_understood(answer["command"])
    return answer


def assert_understood(command: str) -> None:
    """Check that the real command line understands what the page shows."""
    words = shlex.split(command)
    assert words[0] == "steelyard"
    assert not command_complaint(Shown("page", 0, tuple(words[1:])))


def place(row: Any) -> str:
    """Return the address of a message's own part."""
    return f"/api/messages/{quote(row['topic'], safe='')}/{quote(row['broker'])}/{row['queue']}/{row['offset']}"


@pytest.fixture
def one(dashboard: Dashboard, sent: list[Any]) -> Any:
    """Find one message."""
    del sent
    return found(dashboard, topic=_TOPIC, by="key", key="order-7")["rows"][0]


@pytest.mark.usefixtures("sent")
def test_the_newest_come_first_to_mind_and_last_in_the_list(dashboard: Dashboard) -> None:
    answer = found(dashboard, topic=_TOPIC, count=5)
    assert [row["keys"][0] for row in answer["rows"]] == [f"order-{number}" for number in range(15, 20)]
    assert answer["limit_reached"] is None


def test_a_message_is_found_by_queue_and_offset(dashboard: Dashboard, sent: list[Any]) -> None:
    chosen = sent[11]
    where = f"{chosen.queue.broker}:{chosen.queue.queue_id}"
    answer = found(dashboard, topic=_TOPIC, by="offset", queue=where, offset=chosen.offset, count=1)
    assert [row["id"] for row in answer["rows"]] == [chosen.message_id]


@pytest.mark.usefixtures("sent")
def test_messages_are_found_by_time(dashboard: Dashboard) -> None:
    rows = found(dashboard, topic=_TOPIC)["rows"]
    middle = rows[10]["stored_ms"]
    at = datetime.fromtimestamp(middle / 1000, UTC).isoformat()
    later = found(dashboard, topic=_TOPIC, by="time", from_=at)["rows"]
    earlier = found(dashboard, topic=_TOPIC, by="time", until=at)["rows"]
    assert all(row["stored_ms"] >= middle for row in later)
    assert all(row["stored_ms"] < middle for row in earlier)
    assert len(later) + len(earlier) == 20
    assert len(found(dashboard, topic=_TOPIC, by="time", from_="1 hour ago")["rows"]) == 20
    assert found(dashboard, topic=_TOPIC, by="time", from_="now", until="now")["rows"] == []


def test_messages_are_found_by_key_and_by_both_ids(dashboard: Dashboard, sent: list[Any], one: Any) -> None:
    assert one["id"] == sent[7].message_id
    assert found(dashboard, topic=_TOPIC, by="id", id=sent[7].message_id)["rows"] == [one]
    assert found(dashboard, by="id", id=sent[7].message_id.lower())["rows"] == [one]
    detail = get(dashboard, place(one))
    assert found(dashboard, by="id", id=detail["offset_id"])["rows"] == [one]
    assert len(found(dashboard, topic=_TOPIC, by="key", key="all")["rows"]) == 20
    assert found(dashboard, topic=_TOPIC, by="key", key="--count")["rows"] == []


@pytest.mark.usefixtures("sent")
def test_messages_are_found_by_tag_and_by_text(dashboard: Dashboard) -> None:
    assert len(found(dashboard, topic=_TOPIC, tag="paid")["rows"]) == 10
    assert len(found(dashboard, topic=_TOPIC, tag="paid || open", count=15)["rows"]) == 15
    rows = found(dashboard, topic=_TOPIC, text="paid")["rows"]
    assert len(rows) == 10
    assert all("Paid" in row["preview"] for row in rows)
    assert found(dashboard, topic=_TOPIC, tag="open", text="paid")["rows"] == []
    assert found(dashboard, topic=_TOPIC, by="offset", offset=0, text='"order": 7,')["rows"][0]["keys"] == [
        "order-7",
        "all",
    ]


@pytest.mark.usefixtures("sent")
def test_a_search_that_ends_early_reports_it(dashboard: Dashboard) -> None:
    answer = found(dashboard, topic=_TOPIC, text="nowhere", depth=8)
    assert answer["rows"] == []
    assert 0 < answer["scanned"] <= 8
    assert answer["scanned"] + answer["remaining"] == 20


def test_a_message_tells_all_of_itself(dashboard: Dashboard, one: Any) -> None:
    answer = get(dashboard, place(one))
    assert answer["row"] == one
    assert answer["body"]["text"] == '{"order": 7, "state": "Paid"}'
    named = {each["name"]: each for each in answer["properties"]}
    assert named["region"] == {"name": "region", "value": "eu", "is_own": True}
    assert not named["KEYS"]["is_own"]
    assert answer["min_offset"] == 0
    assert answer["max_offset"] > one["offset"]
    assert_understood(answer["command"])


def test_a_message_that_is_not_there_is_said_to_be_missing(dashboard: Dashboard, one: Any) -> None:
    missing = get(dashboard, place({**one, "offset": 999}), status=404)
    assert missing["kind"] == "NoMessage"
    assert get(dashboard, place({**one, "offset": "x"}), status=400)["what"] == "offset is 'x'"


def test_groups_are_past_it_or_not(cluster: Cluster, dashboard: Dashboard, one: Any) -> None:
    with PullConsumer(cluster.namesrv, "done", start_from="first") as pull_consumer:
        pull_consumer.subscribe(_TOPIC)
        taken = 0
        while taken < 20:
            taken += len(pull_consumer.poll(5))
        pull_consumer.commit()
    answer = get(dashboard, f"{place(one)}/readers")
    assert [(row["group"], row["is_past"]) for row in answer["readers"]] == [("done", True)]
    assert_understood(answer["command"])


def test_what_no_client_wrote_down_is_reported(dashboard: Dashboard, one: Any) -> None:
    answer = get(dashboard, f"{place(one)}/trace")
    assert answer["traces"] == []
    assert answer["notes"]
    assert_understood(answer["command"])


def test_what_clients_wrote_down_is_reported(cluster: Cluster, dashboard: Dashboard) -> None:
    with Producer(cluster.namesrv, message_trace=True) as producer:
        producer.send(Message(_TOPIC, b"traced", keys="traced"))
    row = found(dashboard, topic=_TOPIC, by="key", key="traced")["rows"][0]
    traces = get(dashboard, f"{place(row)}/trace")["traces"]
    assert [(each["what"], each["topic"], each["went_well"]) for each in traces] == [("sent", _TOPIC, True)]


@given(st.binary(max_size=2_000), st.integers(1, 500))
def test_a_body_goes_to_the_browser_whole_or_as_its_beginning(body: bytes, most: int) -> None:
    shown = body_view(StoredMessage(Queue("t", "broker-0", 0), 0, body), most)
    sent = b64decode(shown.base64) if shown.base64 is not None else (shown.text or "").encode()
    assert body.startswith(sent)
    assert shown.size == len(body)
    assert shown.is_truncated == (len(body) > most)
    assert len(sent) == len(body) if not shown.is_truncated else most - 3 <= len(sent) <= most
    assert shown.is_text == (shown.base64 is None)


@given(st.binary(max_size=2_000))
def test_a_row_shows_the_beginning_of_a_body(body: bytes) -> None:
    row = message_row("t", StoredMessage(Queue("t", "broker-0", 0), 0, body))
    head = row.preview.encode() if row.is_text else bytes.fromhex(row.preview)
    assert body.startswith(head)
    assert row.is_truncated == (len(head) < len(body))


def test_a_body_is_downloaded_and_never_shown(cluster: Cluster, dashboard: Dashboard) -> None:
    body = b"<script>alert(1)</script>" + b"\xff" * 200_000
    with Producer(cluster.namesrv) as producer:
        producer.send(Message("pages", body))
    row = found(dashboard, topic="pages")["rows"][0]
    shown = get(dashboard, place(row))["body"]
    assert shown["size"] is None, "it is compressed, and no more than what is shown was decompressed"
    assert shown["is_truncated"]
    assert not shown["is_text"]
    answer = http_request(
        dashboard, f"{place(row)}/body", headers={"Authorization": f"Bearer {dashboard.options.token}"}
    )
    assert answer.body == body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_member_handles_it_again(cluster: Cluster, dashboard: Dashboard, one: Any) -> None:
    handled: Line[str] = Line()
    consumer = Consumer(cluster.namesrv, group="billing", start_from="first")

    @consumer.handles(_TOPIC)
    def handle(message: Any) -> None:
        handled.put(message.keys[0])

    with consumer:
        assert {handled.get(timeout=20) for _ in range(20)} == {f"order-{number}" for number in range(20)}
        preview = post(dashboard, f"{place(one)}/redeliver/preview", {"group": "billing"})
        assert preview["value"]["member"] in preview["value"]["members"]
        assert_understood(preview["command"])
        done = post(dashboard, f"{place(one)}/redeliver", {"group": "billing"})
        assert done["value"]["is_done"]
        assert done["command"] == preview["command"]
        assert handled.get(timeout=20) == "order-7"


def test_a_group_with_nobody_online_is_seen_in_the_preview(cluster: Cluster, dashboard: Dashboard, one: Any) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.groups.create("billing")
    preview = post(dashboard, f"{place(one)}/redeliver/preview", {"group": "billing"})
    assert preview["value"]["member"] is None


def test_a_copy_is_sent(dashboard: Dashboard, one: Any) -> None:
    preview = post(dashboard, f"{place(one)}/resend/preview", {"to": None})
    assert preview["value"]["to"] == _TOPIC
    assert_understood(preview["command"])
    sent = post(dashboard, f"{place(one)}/resend", {})["value"]
    copy = get(dashboard, place({"topic": sent["topic"], **sent}))
    assert copy["row"]["keys"] == one["keys"]
    assert copy["row"]["preview"] == one["preview"]
    assert {"name": "region", "value": "eu", "is_own": True} in copy["properties"]


@pytest.mark.usefixtures("sent")
def test_nothing_is_handled_again_on_a_page_that_is_read_only(cluster: Cluster) -> None:
    with Dashboard(cluster.namesrv, DashboardOptions(port=0, read_only=True)) as dashboard:
        row = found(dashboard, topic=_TOPIC, by="key", key="order-7")["rows"][0]
        post(dashboard, f"{place(row)}/resend/preview", {})
        assert post(dashboard, f"{place(row)}/resend", {}, status=403)["kind"] == "ReadOnly"
        assert len(found(dashboard, topic=_TOPIC, by="key", key="order-7")["rows"]) == 1


@pytest.mark.usefixtures("sent")
def test_questions_that_make_no_sense_are_answered_with_a_sentence(dashboard: Dashboard) -> None:
    for asked in _NONSENSE:
        answer = http_request(
            dashboard, f"/api/messages?{asked}", headers={"Authorization": f"Bearer {dashboard.options.token}"}
        )
        assert 400 <= answer.status < 500, asked
        assert answer.json["error"]
