"""All findings, in the order in which somebody would look: this machine, names, servers, topics, groups. Pure."""

from collections.abc import Iterable

from steelyard.cli.doctor.finding import Finding, Mark, look, wrong
from steelyard.cli.doctor.here import Here
from steelyard.cli.doctor.judge_groups import judge_groups, judge_topics
from steelyard.cli.doctor.judge_here import judge_here
from steelyard.cli.doctor.judge_servers import judge_brokers, judge_name_servers
from steelyard.cli.frame.exits import Exit
from steelyard.client.checkup.facts import ClusterSeen

__all__ = ["exit_of", "findings_of"]


def findings_of(here: Here, seen: ClusterSeen) -> list[Finding]:
    """Judge all that was seen."""
    is_reached = any(each.works for each in seen.name_servers)
    found = [
        *judge_here(here, is_reached=is_reached),
        *judge_name_servers(seen.name_servers),
        *judge_brokers(seen.brokers, seen.name_servers),
        *judge_topics(seen.topics),
        *judge_groups(seen.groups, seen.at),
        *(wrong("group", what.rstrip("."), step) for what, step in seen.not_there),
        *(look("what was left out", sentence) for sentence in seen.left_out),
    ]
    if seen.brokers and not any(each.is_reachable for each in seen.brokers):
        found.append(
            wrong(
                "brokers",
                "name servers answer, and none of the brokers they tell of can be reached from here",
                "see above; until then nothing can be sent or received",
            )
        )
    return found


def exit_of(findings: Iterable[Finding], seen: ClusterSeen) -> Exit:
    """Return the exit code: 5 if nobody can be reached, 1 if something is wrong, else 0."""
    if not any(each.works for each in seen.name_servers):
        return Exit.UNREACHABLE
    return Exit.FAILED if any(each.mark is Mark.WRONG for each in findings) else Exit.DONE
