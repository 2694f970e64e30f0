"""Ctrl-C while Java starts: Java would be left behind, so it is heard a moment later."""

import os
from collections.abc import Iterator
from signal import SIGINT, default_int_handler, getsignal, signal

import pytest

from steelyard.spark.spark_session import _defer_sigint


@pytest.fixture(autouse=True)
def _as_in_a_program() -> Iterator[None]:
    """Ctrl-C is Python's own here: a session that other tests share may have taken it."""
    before = signal(SIGINT, default_int_handler)
    yield
    signal(SIGINT, before)


def _start(news: list[str], times: int) -> None:
    with _defer_sigint():
        for _ in range(times):
            os.kill(os.getpid(), SIGINT)
        news.append("Java is up")


def test_ctrl_c_is_held_back_until_java_is_up() -> None:
    news: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _start(news, times=1)
    assert news == ["Java is up"]
    assert getsignal(SIGINT) is default_int_handler


def test_a_second_ctrl_c_is_not_held_back() -> None:
    news: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _start(news, times=2)
    assert not news
