"""The subscriptions of a group are those of its present members: every topic of any of them, in its newest version."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.subscriptions import GroupSubscriptions, newest_by_topic, signature_of
from steelyard.wire.bodies.heartbeat import SubscriptionBody

subscriptions = st.builds(
    SubscriptionBody,
    topic=st.sampled_from(["orders", "refunds", "%RETRY%g"]),
    expression=st.sampled_from(["*", "a", "a || b", "b||a"]),
    version=st.integers(0, 3),
)
members = st.lists(st.tuples(st.integers(0, 4), st.lists(subscriptions, max_size=4)), max_size=30)


@given(members)
def test_members_that_come_change_and_go_leave_what_the_others_want(
    history: list[tuple[int, list[SubscriptionBody]]],
) -> None:
    wants, now = GroupSubscriptions(), dict[int, dict[str, SubscriptionBody]]()
    for member, reported in history:
        if member in now:
            before = now.pop(member)
            wants.remove(before, signature_of(before))
        if reported:
            now[member] = newest_by_topic(reported)
            wants.add(now[member], signature_of(now[member]))
        everything = [each for wanted in now.values() for each in wanted.values()]
        assert set(wants.newest) == {each.topic for each in everything}
        for topic, newest in wants.newest.items():
            assert newest in everything
            assert newest.version == max(each.version for each in everything if each.topic == topic)
        assert wants.are_equal == (len({signature_of(wanted) for wanted in now.values()}) <= 1)


def test_versions_the_order_of_tags_and_retries_do_not_make_members_differ() -> None:
    def shape(*reported: SubscriptionBody) -> object:
        return signature_of(newest_by_topic(reported))

    plain = shape(SubscriptionBody(topic="t", expression="a || b", version=1))
    assert plain == shape(SubscriptionBody(topic="t", expression="b||a", version=9))
    assert plain == shape(SubscriptionBody(topic="t", expression="a||b"), SubscriptionBody(topic="%RETRY%g"))
    assert plain != shape(SubscriptionBody(topic="t", expression="a"))
    assert plain != shape(SubscriptionBody(topic="t", expression="a || b", kind="SQL92"))
