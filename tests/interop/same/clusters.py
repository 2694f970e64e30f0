"""The clusters that are put the same questions: set up alike, and left alone by timers meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard.broker.options import BrokerOptions
from steelyard.serve.embedded import Cluster as Steelyard
from steelyard.store.options import StoreOptions
from tests.interop.backends import BROKER_NAME, CLUSTER_NAME, OURS, Cluster
from tests.interop.servers import apache

_HOUR_MS = 3_600_000
_SEGMENT_BYTES = 64 << 20
_SETTINGS: dict[str, object] = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "transactionCheckInterval": _HOUR_MS,
    "mappedFileSizeCommitLog": _SEGMENT_BYTES,
}


@contextmanager
def quiet_cluster(backend: str, root: Path) -> Iterator[Cluster]:
    """Run one broker and one name server that ask nobody about transactions."""
    if backend == OURS:
        options = BrokerOptions(transaction_check_ms=_HOUR_MS)
        with Steelyard(
            data=root,
            cluster=CLUSTER_NAME,
            broker_name=BROKER_NAME,
            broker_options=options,
            store_options=StoreOptions(segment_bytes=_SEGMENT_BYTES),
        ) as ours:
            yield Cluster(OURS, ours.namesrv, ours.brokers[BROKER_NAME])
        return
    with apache(backend.removeprefix("apache-"), root, **_SETTINGS) as broker:
        yield Cluster(backend, f"127.0.0.1:{broker.name_port}", f"127.0.0.1:{broker.port}")
