"""The page docs/reference/mqadmin.md names all jobs of mqadmin, and every command on it is one that we have."""

import re

import pytest

from tests.cli.parsing import complaint_about, lines_in
from tests.tidy.tree import ROOT

_JOBS = """
updateTopic updateTopicList deleteTopic updateTopicPerm updateOrderConf topicList topicRoute topicStatus
topicClusterList allocateMQ updateStaticTopic remappingStaticTopic
clusterList clusterRT brokerStatus brokerConsumeStats updateBrokerConfig getBrokerConfig cleanExpiredCQ cleanUnusedTopic
deleteExpiredCommitLog sendMsgStatus resetMasterFlushOffset getBrokerEpoch getColdDataFlowCtrInfo
updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig setCommitLogReadAheadMode
updateSubGroup updateSubGroupList deleteSubGroup consumerProgress consumerStatus getConsumerConfig consumerConnection
setConsumeMode startMonitoring consumer
producer producerConnection
queryMsgById queryMsgByKey queryMsgByUniqueKey queryMsgByOffset queryMsgTraceById printMsg printMsgByQueue sendMessage
consumeMessage checkMsgSendRT dumpCompactionLog DecodeMessageId
resetOffsetByTime resetOffsetByTimeOld getConsumerStatus skipAccumulatedMessage cloneGroupOffset
updateKvConfig deleteKvConfig wipeWritePerm addWritePerm getNamesrvConfig updateNamesrvConfig
queryCq checkRocksdbCqWriteProgress statsAll exportMetadata exportConfigs exportMetrics exportMetadataInRocksDB
rocksDBConfigToJson exportPopRecord
haStatus getSyncStateSet getControllerMetaData getControllerConfig updateControllerConfig electMaster
cleanBrokerMetadata addBroker removeBroker
createUser updateUser deleteUser getUser listUser copyUser createAcl updateAcl deleteAcl getAcl listAcl copyAcl
updateAclConfig deleteAclConfig updateGlobalWhiteAddr clusterAclConfigVersion getAclConfig
""".split()

_PAGE = (ROOT / "docs" / "reference" / "mqadmin.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", re.MULTILINE)
_ROWS = dict(_ROW.findall(_PAGE))
_LEAST_COVERED = 0.7


def test_there_are_98_jobs() -> None:
    assert len(set(_JOBS)) == len(_JOBS) == 98


def test_every_job_has_one_row() -> None:
    assert sorted(name for name, _ in _ROW.findall(_PAGE)) == sorted(_JOBS)


def test_a_row_has_a_command_or_says_why_not() -> None:
    silent = [name for name, ours in _ROWS.items() if not lines_in(ours) and not ours.startswith("not covered: ")]
    assert not silent


def test_nearly_all_jobs_are_covered() -> None:
    covered = [name for name, ours in _ROWS.items() if not ours.startswith("not covered: ")]
    assert len(covered) >= _LEAST_COVERED * len(_JOBS)


@pytest.mark.parametrize("line", sorted(set(lines_in(_PAGE))))
def test_every_command_is_one_that_we_have(line: str) -> None:
    assert complaint_about(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "steelyard",
        "steelyard topics ls",
        "steelyard topic lst",
        "steelyard topic ls --sytem",
        "steelyard topic create orders --queues many",
        "steelyard topic create",
    ],
)
def test_a_command_that_we_do_not_have_is_seen(line: str) -> None:
    assert complaint_about(line) is not None
