"""Members go by names that people can read and type, and no two by the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConsumerOffline
from steelyard.model.formatting import resolve_member, short_names

_IDS = st.lists(st.from_regex(r"[a-b]@[a-b1](#[1-2]){0,2}(@sy1)?", fullmatch=True), unique=True, max_size=8)


@given(_IDS)
def test_each_short_name_is_of_one_member_alone(ids: list[str]) -> None:
    short = short_names(ids)
    assert list(short) == ids
    assert len(set(short.values())) == len(ids)
    for each, name in short.items():
        assert resolve_member(each, ids) == resolve_member(name, ids) == each


def test_two_members_of_one_name_go_by_more_of_their_ids() -> None:
    ids = ["10.0.0.7@till#1#2@sy1", "10.0.0.8@till#3#4@sy1", "10.0.0.8@till#5#6@sy1"]
    assert list(short_names(ids).values()) == ["10.0.0.7@till", *ids[1:]]


def test_a_name_that_nobody_has_is_reported_with_those_that_there_are() -> None:
    with pytest.raises(ConsumerOffline, match=r"no member is called 'old-7'; there are: till-1, 10\.0\.0\.8@49"):
        resolve_member("old-7", ["10.0.0.7@till-1#47#11@sy1", "10.0.0.8@49#13@sy1"])
