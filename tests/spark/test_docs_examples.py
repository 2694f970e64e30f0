"""The examples of the pages about Spark run as they stand, in the session that all tests with Spark share."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard import Admin, Message, Producer
from steelyard.serve.embedded import Cluster
from tests.docs.docs_pages import TYPED, needs_spark, pages_of_docs, read
from tests.docs.python_examples import page_complaints, python_fences
from tests.docs.shell_session import Saved, parts_of
from tests.tidy.tree import complain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAGES = [page for page in pages_of_docs() if needs_spark(page) and python_fences(page, read(page))]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", _PAGES)
def test_every_example_runs_or_says_why_not(page: str, tmp_path: Path) -> None:
    # Java stays where it was started, so what a page writes beside itself is written here by its whole name.
    meant = {'"lake/': f'"{tmp_path}/lake/'}
    with Cluster(brokers=2) as cluster:
        with Admin(cluster.namesrv) as admin:
            admin.topics.create("orders", 4)
        complain(page_complaints(page, read(page), cluster.namesrv, tmp_path, meant))


@pytest.mark.parametrize("page", TYPED)
def test_the_program_of_a_typed_page_counts_what_was_sent(page: str, spark: "SparkSession", tmp_path: Path) -> None:
    del spark
    (program,) = (part for part in parts_of(page, read(page)) if isinstance(part, Saved) and "spark" in part.text)
    with Cluster() as cluster, Producer(cluster.namesrv) as producer:
        producer.send_many([Message("orders", b"1", tags="paid"), Message("orders", b"2", tags="paid")])
        shown = "```text\n+----+-----+\n|tags|count|\n+----+-----+\n|paid|    2|\n+----+-----+\n```"
        fence = f"```python\n{program.text}```\n<!-- prints -->\n{shown}\n"
        complain(page_complaints(page, fence, cluster.namesrv, tmp_path))
