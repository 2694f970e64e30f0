"""Options: one table, read and checked together; what is wrong names what would be right."""

import pickle
from copy import copy

import pytest

from steelyard.client.config import ClientConfig
from steelyard.client.tls import Tls
from steelyard.errors import ConfigurationError
from steelyard.spark.offset_spec import EARLIEST_EDGE, LATEST_EDGE
from steelyard.spark.option_table import OPTIONS, OptionMode, options_for
from steelyard.spark.options import ReadOptions, WriteOptions

_HERE = {"namesrv": "mq:9876", "subscribe": "orders"}


def stream(**options: str) -> ReadOptions:
    """Read the options of a stream, in lower case as Spark passes them."""
    return ReadOptions.of(_HERE | {name.lower(): value for name, value in options.items()}, streaming=True)


def batch(**options: str) -> ReadOptions:
    """Read the options of a batch."""
    return ReadOptions.of(_HERE | {name.lower(): value for name, value in options.items()}, streaming=False)


def test_defaults_are_those_of_the_table_and_of_kafka() -> None:
    assert stream() == ReadOptions(client_config=stream().client_config, topics=stream().topics, starting=LATEST_EDGE)
    assert batch() == ReadOptions(
        client_config=batch().client_config, topics=batch().topics, starting=EARLIEST_EDGE, ending=LATEST_EDGE
    )
    assert WriteOptions.of({"namesrv": "mq:9876"}) == WriteOptions(client_config=ClientConfig("mq:9876", name="spark"))


def test_every_option_has_one_row_with_a_sentence() -> None:
    names = [option.name.lower() for option in OPTIONS]
    assert len(set(names)) == len(names)
    assert all(option.description.endswith(".") and option.modes for option in OPTIONS)
    switches = {option.name: option.default for option in OPTIONS if option.default in ("true", "false")}
    on = dict.fromkeys(("tlsVerify", "includeProperties", "failOnDataLoss", "deterministicIds"), "true")
    assert switches == on | {"tls": "false"}
    assert {option.name for option in options_for(OptionMode.BATCH)} - {
        option.name for option in options_for(OptionMode.STREAM)
    } == {
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
    }


def test_every_option_of_a_stream_is_understood() -> None:
    options = ReadOptions.of(
        {
            "namesrv": "mq-1:9876;mq-2:9876",
            "namespace": "eu",
            "accesskey": "shop",
            "secretkey": "secret",
            "securitytoken": "token",
            "tls": "/etc/ca.pem",
            "tlscertificate": "me.pem",
            "tlskey": "me.key",
            "tlskeypassword": "pw",
            "subscribepattern": "orders-.*",
            "sql": "amount > 3",
            "includeproperties": "FALSE",
            "startingtimestamp": "1700000000000",
            "startingoffsetsbytimestampstrategy": "error",
            "failondataloss": "false",
            "maxoffsetspertrigger": "1000",
            "minoffsetspertrigger": "10",
            "maxtriggerdelay": "5m",
            "maxbytespertrigger": "64m",
            "minpartitions": "4",
            "maxpartitions": "8",
            "maxrecordsperpartition": "100",
            "group": "spark-1",
            "offsetpollms": "50",
            "pulldepth": "4",
            "pullmessages": "32",
        },
        streaming=True,
    )
    assert options.client_config.name_servers == ("mq-1:9876", "mq-2:9876")
    assert options.client_config.tls == Tls(ca="/etc/ca.pem", certificate="me.pem", key="me.key", password="pw")
    assert (options.client_config.access_key, options.client_config.token, options.client_config.namespace) == (
        "shop",
        "token",
        "eu",
    )
    assert options.message_filter == ("SQL92", "amount > 3")
    assert (options.include_properties, options.fail_on_data_loss, options.group) == (False, False, "spark-1")
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms) == (
        1000,
        10,
        300_000,
    )
    assert (options.max_bytes_per_trigger, options.min_partitions, options.max_partitions) == (64 << 20, 4, 8)
    assert (options.max_records_per_partition, options.offset_poll_ms, options.pull_depth, options.pull_messages) == (
        100,
        50,
        4,
        32,
    )


def test_every_option_of_a_write_is_understood() -> None:
    given = {
        "topic": "orders",
        "group": "writers",
        "senddepth": "3",
        "maxbatchbytes": "64k",
        "sendtimeoutms": "2s",
        "deterministicids": "false",
    }
    options = WriteOptions.of(given)
    assert (options.topic, options.group, options.send_depth) == ("orders", "writers", 3)
    assert (options.max_batch_bytes, options.send_timeout_ms, options.deterministic_ids) == (65_536, 2_000, False)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("subscirbe", "did you mean subscribe?"),
        ("startingoffset", "did you mean startingOffsets?"),
        ("maxoffsetspertriger", "did you mean maxOffsetsPerTrigger?"),
        ("kafka.bootstrap.servers", "did you mean namesrv?"),
        ("includeheaders", "did you mean includeProperties?"),
        ("consumergroup", "did you mean group?"),
        ("xyzzy", "options are: namesrv, "),
    ],
)
def test_an_unknown_option_is_an_error_that_names_the_nearest(written: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no option") as caught:
        stream(**{written: "1"})
    assert meant in str(caught.value)


def test_an_option_of_another_mode_says_where_it_belongs() -> None:
    with pytest.raises(ConfigurationError, match="endingOffsets does not apply to a stream: it is for a batch read"):
        stream(endingOffsets="latest")
    with pytest.raises(ConfigurationError, match="maxOffsetsPerTrigger does not apply to a batch read"):
        batch(maxOffsetsPerTrigger="5")
    with pytest.raises(ConfigurationError, match=r"topic does not apply to a batch read.*did you mean subscribe\?"):
        batch(topic="orders")
    with pytest.raises(ConfigurationError, match=r"subscribe does not apply to a write.*did you mean topic\?"):
        WriteOptions.of({"subscribe": "orders"})


def test_what_spark_adds_is_passed_over() -> None:
    own = {"path": "", "checkpointlocation": "/tmp/c", "queryname": "q", "spark.sql.x": "1", "__internal": "2"}
    assert stream(**own) == stream()
    assert WriteOptions.of(own).topic is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"assign": '{"orders":{"a":[0]}}'}, "subscribe and assign exclude each other"),
        ({"subscribePattern": "o.*"}, "subscribe and subscribePattern exclude"),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"}, "startingOffsets and startingTimestamp exclude"),
        ({"tags": "a", "sql": "b > 1"}, "tags and sql exclude"),
        ({"startingOffsets": "group"}, "no group is named"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "9 messages at least and 5 at most"),
        ({"maxTriggerDelay": "5s"}, "without minOffsetsPerTrigger"),
        ({"secretKey": "x"}, "without an access key"),
        ({"tlsCertificate": "me.pem"}, "connections do not use TLS"),
        ({"tls": "ca.pem", "tlsVerify": "false"}, "leave one of them out"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        stream(**options)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("failOnDataLoss", "maybe", "the option failOnDataLoss is 'maybe'; give true or false"),
        ("maxPartitions", "0", "the option maxPartitions is '0'; give a whole number of 1 or more"),
        ("pullDepth", "-3", "a whole number"),
        ("pullMessages", "9" * 30, "a whole number"),
        ("offsetPollMs", "soon", "a time span such as 15m"),
        ("maxBytesPerTrigger", "64 apples", "a size such as 64m"),
        ("group", "", "give a value, or leave it out"),
        ("subscribe", " , ", "name topics"),
        ("subscribe", "", "give a value"),
        ("sql", "", "give a value"),
        ("startingOffsetsByTimestampStrategy", "never", "give error or latest"),
    ],
)
def test_a_wrong_value_says_what_would_do(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        stream(**{name: value})
    assert says in str(caught.value)


def test_a_secret_is_never_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        stream(secretKey="", accessKey="shop")
    assert "shop" not in str(caught.value)
    assert "hunter2" not in repr(stream(accessKey="shop", secretKey="hunter2"))


def test_a_topic_must_be_named_and_a_path_is_none() -> None:
    with pytest.raises(ConfigurationError, match="no topic is named"):
        ReadOptions.of({}, streaming=False)
    with pytest.raises(ConfigurationError, match=r"option\('subscribe', 'orders'\) and load\(\)"):
        ReadOptions.of({"path": "orders"}, streaming=False)


def test_topics_are_named_matched_or_assigned() -> None:
    assert ReadOptions.of({"subscribe": "a, b,a"}, streaming=True).topics.names == ("a", "b")
    assigned = ReadOptions.of({"assign": '{"a": {"broker-0": [1, 0, 1]}}'}, streaming=True).topics
    assert [str(queue) for queue in sorted(assigned.queues or ())] == ["a@broker-0:0", "a@broker-0:1"]
    for wrong in ("{}", '{"a": [0]}', '{"a": {"b": []}}', '{"a": {"b": ["0"]}}', '{"a": {"b": [-1]}}', "{", "[]"):
        with pytest.raises(ConfigurationError, match="the option assign is"):
            ReadOptions.of({"assign": wrong}, streaming=True)
    with pytest.raises(ConfigurationError, match="a regular expression"):
        ReadOptions.of({"subscribePattern": "a("}, streaming=True)


def test_all_tags_are_no_filter() -> None:
    assert stream(tags="*").message_filter is None
    assert stream(tags=" paid || new ").message_filter == ("TAG", "paid || new")


def test_options_travel_to_executors() -> None:
    options = stream(startingOffsets='{"orders":{"a":{"0":5}}}', accessKey="shop", secretKey="s", tls="true")
    assert copy(options) == options
    assert len(pickle.dumps(options)) < 2_000


def test_the_environment_says_where_the_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "elsewhere:1234")
    assert ReadOptions.of({"subscribe": "orders"}, streaming=True).client_config.name_servers == ("elsewhere:1234",)
