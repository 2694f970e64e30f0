"""The table of what our servers answer otherwise than Apache's, each row with the reason.

A row that explains nothing any more fails the test as well: the table says what is, not what was.
"""

from tests.interop.same.differences import Intended as Row

_SENDS = (
    Row("send/an empty body", "code 1→0", "an empty body is a body: 4.9 stores it, 5.5 stumbles over it"),
    Row(
        "send/a header without fields|send/a queue that is no number",
        "+ext.MSG_REGION|+ext.TRACE_ON",
        "every answer to a send has both, since Java's client reads them from whatever it gets",
    ),
    Row(
        "batch/320 without the flag|batch/what was stored",
        "-ext.transactionId|*body[5].*",
        "320 is a batch, whether its flag says so or not: as one message its items could not be read by anybody",
    ),
    Row(
        "batch/empty|batch/cut off|batch/nonsense|batch/too large|delay/level of letters",
        "code 1→13",
        "what cannot be stored is the message's fault: 1 would make Java's producer send it again",
    ),
    Row("delay/*", "-ext.recallHandle", "nobody is given a handle that does not work: this broker does not recall"),
    Row("delay/to the timer's topic", "code 0→16", "only the broker writes where messages wait for their time"),
    Row(
        "delay/*|retry/the retries|retry/the message comes again",
        "body[*].prepared",
        "a delivered copy remembers where it waited, so that it is not delivered twice after a crash",
    ),
    Row(
        "delay/*",
        "-body[*].properties.TIMER_ENQUEUE_MS|-body[*].properties.TIMER_DEQUEUE_MS",
        "when Apache's wheel took a message up and let it go: there is no wheel here",
    ),
    Row(
        "delay/delay offsets",
        "-body.offsetTable.*|body.dataVersion.timestamp",
        "read by replicas alone; a level of which nothing was delivered yet is left out",
    ),
    Row(
        "retry/the dead letters*",
        "-body[*].properties.DELAY|+body[*].properties.DLQ_ORIGIN_*",
        "dead letters say where they came from, and nothing of a delay that does not count any more",
    ),
    Row(
        "retry/the message comes again|retry/the dead letters sent back",
        "-body[*].properties.WAIT",
        "Apache lets what is sent back not wait for the disk; here it waits as its broker does",
    ),
    Row("transactions/roll back after the commit", "code 0→604", "a transaction ends once"),
    Row(
        "transactions/prepared without the mark|transactions/rolled back without the mark",
        "code 0→13",
        "Apache stores such a message where nobody ever sees it",
    ),
    Row(
        "replies/*|side effects of sends/a reply in a new topic",
        "ext.msgId|ext.queueOffset|-ext.msgId|-ext.queueId|-ext.queueOffset",
        "replies are passed on and not stored, so they have no place",
    ),
    Row(
        "side effects of sends/a topic of a refused send|side effects of sends/those retries|"
        "side effects of sends/that topic",
        "code 0→17",
        "what is refused makes no topic",
    ),
    Row(
        "side effects of sends/no dead letters|side effects of sends/but a retry",
        "code 0→17|ext.offset",
        "a lock of one member makes no dead letters of what others want to try again",
    ),
)

_READS = (
    Row("*", "type", "an answer has the header type of its question, as with 4.9"),
    Row(
        "retry/back, bad group|pull/bad group|pull/no group|groups/a bad one",
        "code 26→29",
        "a name that cannot be is told as such, and not as a group that is missing",
    ),
    Row(
        "pull/bad condition|pull/a kind in small letters|pull/a kind nobody knows",
        "code 0→23",
        "a filter that cannot be read is refused; Apache takes it for none and delivers everything",
    ),
    Row("pull/no kind", "code 20→0", "no kind means tags; Apache compares with none of them and finds nothing"),
    Row("pull/what was committed below", "ext.offset", "an offset below zero that comes with a pull is not committed"),
    Row(
        "offsets/nothing stored, *|groups/lost offset",
        "code 22→0",
        "a new group that is told 22 asks for the end and skips what was sent in between: so 0 if empty, as with 4.9",
    ),
    Row(
        "offsets/commit below|offsets/commit to a queue *|reset/no such queue",
        "code 0→29",
        "an offset or a queue that cannot be is refused, or it would stay in the table for ever",
    ),
    Row(
        "reset/back only, to the end",
        "body.offsetTable[same-reset@broker-a:0]",
        "not forced means back only, as with 4.9: 5.5 skips what nobody wanted skipped",
    ),
    Row(
        "subscribed/check without a body|groups/no body",
        "code 0→1",
        "a question without its body is refused, and not taken for a wish to do nothing",
    ),
    Row("query/index beyond|query/index below", "+body*", "the queue's ends are told even if no entry is there"),
    Row(
        "query/index of a member's group",
        "-body.filterData|body.queueData[*].eval",
        "each entry says whether its tag matches; Apache says no for all, and null for the filter",
    ),
)

_MEMBERS = (
    Row(
        "members/a bad group|members/no id",
        "code 0→29",
        "who cannot be registered is told; the other groups of the heartbeat are",
    ),
    Row(
        "fingerprints/another",
        "ext.IS_SUB_CHANGE",
        "fingerprints are kept by client: two that differ would be asked again with every heartbeat",
    ),
    Row("locks/another broker's", "-body.lockOKMQSet*", "queues of other brokers are not locked here"),
    Row(
        "relays/directly, no such message|relays/directly, no message",
        "code 1→22|code 1→13",
        "what is wrong with the message's id is told; Apache fails with an exception",
    ),
)

_RULING = (
    Row(
        "topics/with a bad attribute|topics/with an odd filter|groups/with a bad attribute",
        "code 1→29",
        "impossible settings are the asker's fault",
    ),
    Row(
        "odd topics/*|topics/delete a bad name",
        "code 0→29",
        "impossible settings and names are refused, not noted",
    ),
    Row(
        "topics/* of what was made again",
        "ext.offset",
        "a topic that is deleted and made again goes on counting: old offsets of groups never name new messages",
    ),
    Row(
        "topics/all|topics/of the system|routes/topics*",
        "-*RMQ_SYS_ROCKSDB_TRANS_*|-*rmq_sys_REVIVE_LOG_steelyard*|-body.topicList[CHECKPOINT_TOPIC]",
        "topics of what this broker does not have: transactions in another store, POP, and an old name of Apache's",
    ),
    Row(
        "topics/all|routes/topics*",
        "+*TRANS_CHECK_MAX_TIME_TOPIC*",
        "where halves go that nobody resolved: there from the start, so that it can be watched",
    ),
    Row(
        "topics/all|topics/of the system|routes/topics*",
        "+*rmq_sys_steelyard_moves*",
        "where this broker writes down which queue went from whom to whom",
    ),
    Row(
        "topics/all|topics/a page",
        "ext.totalTopicNum|body.mappingDataVersion.timestamp",
        "follows from the three above; there are no static topics",
    ),
    Row(
        "groups/all after deleting|statistics/all groups*",
        "-*same-many-a*|-*same-nobody*|ext.totalGroupNum",
        "a group that is deleted is gone; 5.5 makes it again while it looks whether it was a lite one",
    ),
    Row(
        "groups/offsets of all",
        "-body.groupTopicMap*|-body.pullOffsetTable*|body.dataVersion.*|+body.offsetTable.*@CID_RMQ_SYS_*",
        "read by replicas alone; the broker's own progress is kept with the groups'",
    ),
    Row(
        "groups/offsets of all|statistics/all groups",
        "*same-committers*|body.offsetTable.same-pull@same-pullers.0|-body.offsetTable.same-reset@same-resetters.9|"
        "body.total*|*same-pullers*",
        "follows from the impossible commits that were refused",
    ),
    Row("statistics/all groups", "-*[same-stats@broker-a:2]*", "a queue that nobody can read has no lag"),
    Row("statistics/all groups", "+*CID_RMQ_SYS_TRANS*", "the broker's own progress with transactions"),
    Row(
        "statistics/*spans*",
        "body.consumeTimeSpanSet[*].delayTime",
        "where nothing waits, nothing is late; Apache counts from 1970",
    ),
    Row(
        "statistics/all groups",
        "*.pullOffset",
        "how far a group has pulled is told for all groups as well; Apache leaves 0",
    ),
    Row(
        "statistics/now",
        "+body.table.brokerVersion|+body.table.getTransferedTps|*body.table.commitLogDiskRatio_*",
        "names that 4.9 knows as well; the log is told by its name and not by its path",
    ),
    Row(
        "settings/all|settings/changed",
        "-body.*|+body.filterServerNums",
        "only settings that mean something here are told, and those that tools read",
    ),
    Row(
        "settings/all|settings/changed",
        "body.maxTransferCountOnMessageInMemory",
        "a pull may bring more messages: its bytes are what is bounded here",
    ),
    Row(
        "settings/an unknown name|settings/no setting|values/change a port",
        "code 0→16",
        "whoever sets what cannot be set is told; Apache notes it, and nothing happens",
    ),
    Row(
        "statistics/replicas",
        "-body.haClientRuntimeInfo*|body.masterCommitLogMaxOffset",
        "a master follows nobody and tells nothing of that; the logs hold the same messages, not the same bytes",
    ),
    Row("unknown/pop", "code 17→3", "POP is not served"),
)

_NAMING = (
    Row("routes/no name|routes/without fields", "code 17→29|code 17→1", "a question without a topic has no answer"),
    Row("registration/add a topic of nobody", "code 0→211", "queues on a broker that is not there; Apache drops them"),
    Row("registration/come with one topic", "code 1→0", "a broker may come with one topic"),
    Row("values/put nothing", "code 0→29", "no value is not a value"),
    Row("values/an ordered route", "+body.orderTopicConf", "an order that somebody set is told to clients"),
    Row(
        "values/settings",
        "-body.*|body.orderMessageEnable",
        "only settings that mean something here are told; the order of topics is told by default",
    ),
    Row(
        "clones/cloned all",
        "code 22→0",
        "without a topic all are cloned, as the tool's text says; Apache loses the topic on the way",
    ),
)

INTENDED = (*_SENDS, *_READS, *_MEMBERS, *_RULING, *_NAMING)
"""Towards 5.5.0."""

ONLY_IN_4 = (
    Row("query/index of a member's group", "-body.filterData", "null for the filter"),
    Row("locks/another broker's", "-body.lockOKMQSet*", "queues of other brokers are not locked here"),
    Row("replies/to *|side effects of sends/a reply in a new topic", "-ext.*", "replies are not stored"),
    Row(
        "topics/all|routes/topics*|groups/all*|statistics/all groups*",
        "-*%RETRY%no/group*|-*same-topic-bad*|-*Table..*|-*List..*|-*no/group*|-*same-attr*|-*.xxx*",
        "what impossible names and attributes have made in 4.9",
    ),
    Row("topics/a page|groups/a page", "-body.*", "4.9 has no pages and tells everything"),
    Row(
        "groups/offsets of all|statistics/all groups",
        "-*",
        "4.9 takes commits of groups and to topics that are not there, and forgets no offsets with a topic",
    ),
    Row("statistics/now", "-body.table.commitLogDiskRatio_*|-body.table.scheduleMessageOffset_2", "as in 5.5"),
    Row("settings/*|values/settings", "-body.*", "only settings that mean something here are told"),
)
"""What only 4.9.7 says, and we do not."""
