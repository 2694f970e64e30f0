"""What a group wants is always what its members want now: every topic of any of them, in its newest version."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.wants import Wants, by_topic, shape_of
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
    story: list[tuple[int, list[SubscriptionBody]]],
) -> None:
    wants, now = Wants(), dict[int, dict[str, SubscriptionBody]]()
    for member, told in story:
        if member in now:
            before = now.pop(member)
            wants.remove(before, shape_of(before))
        if told:
            now[member] = by_topic(told)
            wants.add(now[member], shape_of(now[member]))
        everything = [each for wanted in now.values() for each in wanted.values()]
        assert set(wants.newest) == {each.topic for each in everything}
        for topic, newest in wants.newest.items():
            assert newest in everything
            assert newest.version == max(each.version for each in everything if each.topic == topic)
        assert wants.agree == (len({shape_of(wanted) for wanted in now.values()}) <= 1)


def test_versions_the_order_of_tags_and_retries_do_not_make_members_differ() -> None:
    def shape(*told: SubscriptionBody) -> object:
        return shape_of(by_topic(told))

    plain = shape(SubscriptionBody(topic="t", expression="a || b", version=1))
    assert plain == shape(SubscriptionBody(topic="t", expression="b||a", version=9))
    assert plain == shape(SubscriptionBody(topic="t", expression="a||b"), SubscriptionBody(topic="%RETRY%g"))
    assert plain != shape(SubscriptionBody(topic="t", expression="a"))
    assert plain != shape(SubscriptionBody(topic="t", expression="a || b", kind="SQL92"))
