"""Apache's administrator's tool reads our cluster as it reads Apache's."""

from tests.interop.mqadmin import Mqadmin


def test_topics_are_listed(mqadmin: Mqadmin, topic: str) -> None:
    assert topic in mqadmin("topicList").lines
