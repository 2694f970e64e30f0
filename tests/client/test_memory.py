"""Five megabytes of messages never cost a reader two gigabytes: 320 bodies of 16 kB that hold 16 MiB each.

It takes half a minute for each kind of reader, so it runs with STEELYARD_SLOW=1. The tests of large bodies and of
decompression are its short version.
"""

import os
import subprocess
import sys
import zlib

import pytest

from steelyard.model.reserved_names import DLQ_PREFIX
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import make_topic, put

_MOST_MIB = 800
"""What is open at a time takes 100 MiB, and what the allocator keeps for each thread some times that."""

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif("STEELYARD_SLOW" not in os.environ, reason="takes minutes: STEELYARD_SLOW=1"),
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize(
    "kind",
    [
        "consumer",
        "batches",
        "pull_consumer",
        "dashboard",
        "spark",
        "message ls",
        "dead-letters ls",
    ],
)
def test_a_reader_of_small_messages_with_large_bodies_stays_small(kind: str) -> None:
    body = zlib.compress(bytes(16 << 20))
    with Cluster() as cluster:
        topics = ["large"] if kind != "dead-letters ls" else ["large", f"{DLQ_PREFIX}readers"]
        for topic in topics:
            make_topic(cluster, topic, queues=4)
            for queue_id in range(4):
                put(cluster, topic, queue_id, [body] * 80, sys_flag=0x301)
        command = [sys.executable, "-m", "tests.client.read_large", cluster.namesrv, "large", "readers", "320", kind]
        reported = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reported.returncode == 0, reported.stderr
    print(f"{kind}: {reported.stdout.strip()} MiB")
    assert int(reported.stdout) < _MOST_MIB
