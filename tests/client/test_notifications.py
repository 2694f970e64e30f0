"""What a member tells its user: moves together, what lasts once, what repeats seldom."""

from steelyard.balance.group.actions import MemberReport
from steelyard.client.consumer.notifications import Notifications, Rebalanced
from steelyard.client.namespace import ClientNamespace
from steelyard.model import Queue
from steelyard.model.finding import Finding

_QUEUES = [Queue("eu%orders", "broker-a", number) for number in range(3)]


def _news() -> tuple[Notifications, list[Rebalanced], list[Finding]]:
    moves: list[Rebalanced] = []
    findings: list[Finding] = []
    return Notifications("billing", ClientNamespace("eu"), moves.append, findings.append), moves, findings


def test_moves_of_one_moment_are_told_together_and_by_the_names_that_users_know() -> None:
    news, moves, _ = _news()
    news.report(MemberReport("taken", "taken: …", (_QUEUES[1],)), 0)
    news.report(MemberReport("taken", "taken: …", (_QUEUES[0],)), 0)
    news.report(MemberReport("lost", "lost, since a commit was refused: …", (_QUEUES[2],)), 0)
    assert news.has_changes
    news.rebalanced(7, "c1", (), "STICKY among 2 members")
    assert not news.has_changes
    bare = [Queue("orders", "broker-a", number) for number in range(3)]
    assert moves == [Rebalanced(7, "c1", (bare[0], bare[1]), (), (bare[2],), (), "lost, since a commit was refused")]
    assert str(moves[0]).startswith("c1 took orders@broker-a:0, orders@broker-a:1; lost orders@broker-a:2; has 0 now")


def test_what_repeats_is_reported_once_a_minute_with_how_often_it_was() -> None:
    news, _, findings = _news()
    for at_ms in (0, 10, 20, 60_000):
        news.report(MemberReport("dropped", f"messages are dropped: {at_ms}"), at_ms)
    assert [finding.message for finding in findings] == [
        "messages are dropped: 0",
        "messages are dropped: 60000 (and 2 more times in the last minute)",
    ]


def test_what_lasts_is_reported_once_and_again_when_it_comes_back() -> None:
    news, _, findings = _news()
    missing = Finding("no topic", "it is not there")
    for found in ([missing], [missing], [], [missing]):
        news.update_findings(found)
    assert findings == [missing, missing]
    assert news.findings() == (missing,)


def test_a_degraded_group_is_a_warning_until_it_is_restored() -> None:
    news, _, findings = _news()
    news.report(MemberReport("degraded", "shared by AVG now"), 0)
    assert [finding.kind for finding in news.findings()] == ["degraded"]
    news.report(MemberReport("restored", "shared by STICKY now"), 0)
    assert news.findings() == ()
    assert len(findings) == 1
