"""What a member tells its user: moves together, what lasts once, what repeats seldom."""

from steelyard.balance.actions import Report
from steelyard.balance.hazards import Hazard
from steelyard.client.consuming.news import Moved, News
from steelyard.client.names import Names
from steelyard.model import Queue

_QUEUES = [Queue("eu%orders", "broker-a", number) for number in range(3)]


def _news() -> tuple[News, list[Moved], list[Hazard]]:
    moves: list[Moved] = []
    hazards: list[Hazard] = []
    return News("billing", Names("eu"), moves.append, hazards.append), moves, hazards


def test_moves_of_one_moment_are_told_together_and_by_the_names_that_users_know() -> None:
    news, moves, _ = _news()
    news.report(Report("taken", "taken: …", (_QUEUES[1],)), 0)
    news.report(Report("taken", "taken: …", (_QUEUES[0],)), 0)
    news.report(Report("lost", "lost, since a commit was refused: …", (_QUEUES[2],)), 0)
    assert news.has_moves
    news.moved(7, "c1", (), "STICKY among 2 members")
    assert not news.has_moves
    bare = [Queue("orders", "broker-a", number) for number in range(3)]
    assert moves == [Moved(7, "c1", (bare[0], bare[1]), (), (bare[2],), (), "lost, since a commit was refused")]
    assert str(moves[0]).startswith("c1 took orders@broker-a:0, orders@broker-a:1; lost orders@broker-a:2; has 0 now")


def test_what_repeats_is_told_once_a_minute_with_how_often_it_was() -> None:
    news, _, hazards = _news()
    for at_ms in (0, 10, 20, 60_000):
        news.report(Report("dropped", f"messages are dropped: {at_ms}"), at_ms)
    assert [hazard.sentence for hazard in hazards] == [
        "messages are dropped: 0",
        "messages are dropped: 60000 (and 2 times in the minute before)",
    ]


def test_what_lasts_is_told_once_and_again_when_it_comes_back() -> None:
    news, _, hazards = _news()
    missing = Hazard("no topic", "it is not there")
    for found in ([missing], [missing], [], [missing]):
        news.lasting(found)
    assert hazards == [missing, missing]
    assert news.hazards() == (missing,)


def test_a_degraded_group_is_a_hazard_until_it_is_restored() -> None:
    news, _, hazards = _news()
    news.report(Report("degraded", "shared by AVG now"), 0)
    assert [hazard.kind for hazard in news.hazards()] == ["degraded"]
    news.report(Report("restored", "shared by STICKY now"), 0)
    assert news.hazards() == ()
    assert len(hazards) == 1
