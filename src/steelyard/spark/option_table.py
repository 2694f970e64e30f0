"""Every option of the source and the sink: one table, by which they are parsed, suggested and documented.

Names and meanings are those of Spark's Kafka connector where it has such an option. Spark passes options in lower case,
so names are case-insensitive. An invalid value is an error at once, with the name as in the table, the value, and what
is valid; an unknown name is an error that suggests one, unless Spark itself adds it.

Left out: what options mean together (options.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto

import msgspec

from steelyard.client.suggestions import closest_match
from steelyard.errors import ConfigurationError


class OptionMode(Flag):
    """Where an option applies."""

    BATCH = auto()
    STREAM = auto()
    WRITE = auto()
    READ = BATCH | STREAM
    ANY = BATCH | STREAM | WRITE


@dataclass(frozen=True, slots=True)
class _SparkOption:
    """One option."""

    name: str
    default: str | None  # as text; None if there is none
    modes: OptionMode
    description: str


def options_for(mode: OptionMode) -> tuple[_SparkOption, ...]:
    """Return the options of a mode, in order.

    >>> "endingOffsets" in [option.name for option in options_for(OptionMode.STREAM)]
    False
    """
    return tuple(option for option in OPTIONS if option.modes & mode)


_OPTIONS_TEXT = """
# connection
namesrv (any): The name servers, separated by ;. Default: the environment variable NAMESRV_ADDR, then localhost:9876.
namespace (any): Prefixed to every topic and group, and removed in the topic column.
accessKey (any): The access key (ACL user name) that requests are signed with; needs secretKey.
secretKey (any): The secret of accessKey.
securityToken (any): The token of a temporary access key.
tls (any, false): Use TLS for connections: true, false, or the path of a CA file, on every machine.
tlsCertificate (any): The path of the client certificate, if servers require one.
tlsKey (any): The path of the certificate's private key, if it is in another file.
tlsKeyPassword (any): The password of the private key.
tlsVerify (any, true): Whether the certificates of servers are verified.
# topics and filters
subscribe (read): The topics to read, separated by commas.
subscribePattern (read): Read the topics whose whole name matches a regular expression, also those that are created
    later; never system, retry or dead-letter topics.
assign (read): Read certain queues and no others: {"orders": {"broker-a": [0, 1]}}.
tags (read): Only messages with these tags, as in: paid || refunded; filtered by the brokers.
sql (read): Only messages whose properties meet a SQL92 condition, as in: amount > 10; filtered by the brokers.
includeProperties (read, true): Whether there is a column with all properties; without it reading is about twice as
    fast.
# start and end
startingOffsets (read): Where to start: earliest (default of a batch), latest (streams only, and their default), group
    (its committed offsets; earliest where it has none), a relative time such as -2h, or an offset for each queue:
    {"orders": {"broker-a": {"0": 123}}}, where -2 is earliest and -1 latest, and queues that are not named start at
    earliest. A stream with a checkpoint continues from there instead.
startingTimestamp (read): Start with the first message of each queue that was stored at a timestamp or later; a
    relative time counts from planning. A queue without one starts at its end: see startingOffsetsByTimestampStrategy.
startingOffsetsByTimestamp (read): Start each queue at its own timestamp, in milliseconds since 1970: {"orders":
    {"broker-a": {"0": 1700000000000}}}; queues that are not named start at earliest.
startingOffsetsByTimestampStrategy (read, latest): What to do with a queue that has no message at the starting
    timestamp or later: latest starts at its end, error fails.
endingOffsets (batch, latest): Where to end, exclusive: latest as of planning, group, a relative time, or an offset
    for each queue as in startingOffsets; queues that are not named end at latest.
endingTimestamp (batch): End before the first message of each queue that was stored at a timestamp or later, or at its
    end.
endingOffsetsByTimestamp (batch): End each queue at its own timestamp, as in startingOffsetsByTimestamp; queues that
    are not named end at latest.
failOnDataLoss (read, true): Whether a query fails when messages that it should read are gone: deleted before they
    were read, or with their topic. Otherwise each lost range is logged, and the query goes on.
onUnreadable (read, fail): What to do with a message whose body cannot be decompressed: fail ends the query with its
    queue and offset, skip leaves it out, null returns it without a body; the last two are logged. A query without the
    column body decompresses none.
# admission control
maxOffsetsPerTrigger (stream): The maximum number of messages of a batch (before tags or sql), shared fairly over
    queues.
minOffsetsPerTrigger (stream): A batch waits for this many messages, or until maxTriggerDelay is over.
maxTriggerDelay (stream, 15m): How long minOffsetsPerTrigger may delay a batch.
maxBytesPerTrigger (stream): The approximate maximum of bytes of a batch, as stored: when it matters, a few messages
    are sampled at the start of the batch, and their average size is used for all.
# tasks
minPartitions (read): The minimum number of tasks, if there are as many messages; long queues are split.
maxPartitions (read, 16): The maximum number of tasks, unless minPartitions is more: short queues share one, since a
    task has a start-up cost.
maxRecordsPerPartition (read, 500000): A task should not have more messages than this, if maxPartitions allows it.
# group
group (any): Reading: the consumer group of pulls; a stream commits its offsets to it after each batch, so that any
    tool shows its lag. Members of the same group would move the same offsets, so give the query its own group.
    Writing: the producer group.
# tuning
offsetPollMs (stream, 50): How long a stream caches the max offsets of queues; Spark requests them about 90 times a
    second. With very many queues it is longer: five times as long as a poll takes.
pullDepth (read, 16): How many pulls of one task are in flight at a time.
pullMessages (read, 1000): How many messages one pull requests; a broker has its own limit, 32 by default on Apache's.
# writing
topic (write): The topic of all rows, which overrides their column; without it the column of each row decides.
sendDepth (write, 16): How many batches of one task are in flight at a time.
maxBatchBytes (write, 1m): The maximum size of a batch of messages; a broker accepts 4 MiB.
maxMessageBytes (write, 4m): The maximum size of a body; a larger one fails the task before anything of its Arrow
    batch is sent.
sendTimeoutMs (write, 10000): How long a batch is retried before the task fails.
deterministicIds (write, true): Whether a row that is resent has the same message id, by which readers can drop
    repeats.
writeId (write): The scope of the message ids of a batch write, so that they are the same if it is repeated: in
    foreachBatch, the batch number and a word of your own. Streams need none.
"""
"""Each option: its name, where it applies, its default if it has one, and what it means."""
_OPTION = re.compile(r"^(\w+) \((\w+)(?:, (\w+))?\): (.+(?:\n    .+)*)", re.MULTILINE)

OPTIONS: tuple[_SparkOption, ...] = tuple(
    _SparkOption(name, default or None, OptionMode[mode.upper()], " ".join(text.split()))
    for name, mode, default, text in _OPTION.findall(_OPTIONS_TEXT)
)


_BY_NAME = {option.name.lower(): option for option in OPTIONS}

_SPARK_INTERNAL = frozenset({"path", "paths", "checkpointlocation", "queryname", "outputmode", "serialization.format"})
"""Options that Spark itself adds."""

_ALIASES = {
    "kafka.bootstrap.servers": "namesrv",
    "nameserver": "namesrv",
    "namesrvaddr": "namesrv",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "consumergroup": "group",
    "producergroup": "group",
    "includeheaders": "includeProperties",
    "topics": "subscribe",
    "filter": "tags",
}
"""Names that other connectors use."""

_MODE_NAMES = {OptionMode.BATCH: "a batch read", OptionMode.STREAM: "a stream", OptionMode.WRITE: "a write"}
_DURATION = re.compile(r"(\d{1,15})\s*(ms|s|m|min|h|d)?")
_DURATION_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d{1,18})\s*([kmgt]?)(?:i?b)?")
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECRETS = frozenset({"secretKey", "securityToken", "tlsKeyPassword"})
_MAX_COUNT_DIGITS = 18


def invalid_option(name: str, value: str, next_step: str) -> ConfigurationError:
    """Make the error for a value; secrets are not shown."""
    shown = "a text" if name in _SECRETS else repr(value if len(value) <= 200 else f"{value[:200]}…")
    return ConfigurationError(f"the option {name} is {shown}", next_step=next_step)


def parse_duration_ms(text: str) -> int | None:
    """Return a time span in milliseconds; None if it is none.

    >>> parse_duration_ms("15m"), parse_duration_ms("300"), parse_duration_ms("2 h"), parse_duration_ms("soon")
    (900000, 300, 7200000, None)
    """
    found = _DURATION.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) * _DURATION_UNITS_MS[found[2] or ""]


class OptionValues:
    """The options that were given for one mode. Each method takes a name as the table writes it."""

    def __init__(self, options: Mapping[str, str], mode: OptionMode) -> None:
        self.mode = mode
        self.path = str(options.get("path") or "")  # the argument of ``load`` or ``save``: nothing here is a path
        self._values: dict[str, str] = {}
        for written, value in options.items():
            known = self._find_option(written)
            if known is not None:
                self._values[known.name] = str(value)

    def _find_option(self, written: str) -> _SparkOption | None:
        """Return the option of a name; None for what Spark adds."""
        key = written.lower()
        known = _BY_NAME.get(key)
        if known is not None and known.modes & self.mode:
            return known
        if known is not None:
            where = " and ".join(words for mode, words in _MODE_NAMES.items() if mode & known.modes)
            raise ConfigurationError(
                f"the option {known.name} does not apply to {_MODE_NAMES[self.mode]}: it is for {where}",
                next_step=self._suggestion(key) or "leave it out",
            )
        if key in _SPARK_INTERNAL or key.startswith(("spark.", "__")):
            return None
        raise ConfigurationError(
            f"there is no option {written!r}",
            next_step=self._suggestion(key)
            or f"options are: {', '.join(option.name for option in options_for(self.mode))}",
        )

    def _suggestion(self, key: str) -> str:
        here = {option.name.lower(): option.name for option in OPTIONS if option.modes & self.mode}
        meant = here.get(_ALIASES.get(key, "").lower())
        if key in ("topic", "subscribe"):
            meant = "topic" if key == "subscribe" else "subscribe"
        meant = meant or here.get(closest_match(key, here) or "")
        return f"did you mean {meant}?" if meant and key not in here else ""

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def one_of(self, *names: str) -> str | None:
        """Return which of several options was given; two of them are an error."""
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            raise ConfigurationError(
                f"the options {' and '.join(given)} exclude each other", next_step="leave all but one of them out"
            )
        return given[0] if given else None

    def text(self, name: str) -> str | None:
        """Return a text without blanks around it; None if there is none, nor a default."""
        value = self._values.get(name)
        return _BY_NAME[name.lower()].default if value is None else value.strip()

    def required_text(self, name: str) -> str | None:
        """Return a text that must not be empty."""
        value = self.text(name)
        if value == "":
            raise invalid_option(name, "", "give a value, or leave it out")
        return value

    def boolean(self, name: str) -> bool:
        """Return a boolean."""
        value = (self.text(name) or "").lower()
        if value not in ("true", "false"):
            raise invalid_option(name, value, "give true or false")
        return value == "true"

    def optional_count(self, name: str) -> int | None:
        """Return a number of 1 and more."""
        value = self.text(name)
        if value is None:
            return None
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_COUNT_DIGITS else 0
        if number < 1:
            raise invalid_option(name, value, "give a whole number of 1 or more")
        return number

    def required_count(self, name: str) -> int:
        """Return a number of 1 and more that has a default."""
        return self.optional_count(name) or 1

    def duration_ms(self, name: str) -> int:
        """Return a time span in milliseconds."""
        value = self.text(name) or ""
        found = parse_duration_ms(value)
        if found is None:
            raise invalid_option(name, value, "give milliseconds, or a time span such as 15m")
        return found

    def byte_size(self, name: str) -> int | None:
        """Return a number of bytes."""
        value = self.text(name)
        if value is None:
            return None
        found = _SIZE.fullmatch(value.lower())
        number = int(found[1]) * _SIZE_UNITS[found[2]] if found else 0
        if number < 1:
            raise invalid_option(name, value, "give bytes, or a size such as 64m")
        return number

    def json(self, name: str) -> object:
        """Return the value of a JSON text."""
        value = self.text(name) or ""
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError) as error:
            raise invalid_option(name, value, f"give JSON ({error})") from None
