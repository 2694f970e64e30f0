"""What `deploy/` asks Prometheus for is something that somebody tells, and its commands are commands."""

import json
import re
from collections.abc import Iterator

from steelyard.dashboard.options import DASHBOARD_PORT
from steelyard.metrics.families import MetricSpec, MetricType
from steelyard.metrics.rocketmq_metrics import ROCKETMQ_METRICS
from steelyard.metrics.steelyard_metrics import STEELYARD_METRICS
from tests.docs.command_tree import verbs
from tests.tidy.tree import ROOT, complain

DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "alerts.yml"
BOARD = DEPLOY / "grafana" / "steelyard.json"

_NAME = re.compile(r"\b(?:rocketmq|steelyard)_\w+")


def reported(measures: tuple[MetricSpec, ...] = (*ROCKETMQ_METRICS, *STEELYARD_METRICS)) -> dict[str, MetricSpec]:
    """Return the families by the names that their samples have."""
    found = {}
    for each in measures:
        for part in ("_bucket", "_sum", "_count") if each.kind is MetricType.HISTOGRAM else ("",):
            found[each.name + part] = each
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Go through all that is asked for, and where."""
    grafana = json.loads(BOARD.read_text(encoding="utf-8"))
    for panel in grafana["panels"]:
        for target in panel.get("targets", ()):
            yield f"the panel {panel['title']!r}", target["expr"]
    for variable in grafana["templating"]["list"]:
        yield f"the variable {variable['name']}", variable.get("definition", "")
    for rule in rules():
        yield f"the alert {rule['alert']}", rule["expr"]


def rules() -> Iterator[dict[str, str]]:
    """Go through the rules that raise alarms: each with its keys, as they stand there."""
    for block in ALERTS.read_text(encoding="utf-8").split("      - ")[1:]:
        rule, key = dict[str, str](), ""
        for line in block.splitlines():
            found = re.match(r"\s*(\w+):(?: (.*)|$)", line)
            if found:
                key = found[1]
                rule[key] = (found[2] or "").removeprefix(">-")
            elif line.strip():
                rule[key] += f" {line.strip()}"
        yield rule


def test_the_dashboard_and_the_rules_query_only_families_that_exist() -> None:
    known = reported()
    complain(
        f"{where} asks for {name}, which nobody tells"
        for where, expression in expressions()
        for name in _NAME.findall(expression)
        if name not in known
    )


def test_labels_are_those_of_the_family() -> None:
    known = reported()
    for where, expression in expressions():
        for name, inside in re.findall(r"\b((?:rocketmq|steelyard)_\w+)\{([^}]*)\}", expression):
            labels = set(re.findall(r"(\w+)\s*[=!]", inside))
            assert labels <= set(known[name].labels), f"{where} asks {name} for {labels - set(known[name].labels)}"


def test_every_family_about_balance_is_on_the_dashboard() -> None:
    asked = {name for _, expression in expressions() for name in _NAME.findall(expression)}
    balance = [
        each
        for each in STEELYARD_METRICS
        if each.name.startswith(("steelyard_rebal", "steelyard_moves", "steelyard_hand"))
    ]
    assert balance
    complain(
        f"{name} is not on the board"
        for name in reported(tuple(balance))
        if not name.endswith(("_sum", "_count")) and name not in asked
    )


def test_every_rule_says_how_bad_it_is_and_what_happened() -> None:
    found = list(rules())
    assert len({rule["alert"] for rule in found}) == len(found) > 10
    for rule in found:
        assert rule["labels"] in ("{ severity: page }", "{ severity: ticket }"), rule["alert"]
        assert rule["summary"], rule["alert"]


def test_every_command_that_a_rule_names_is_a_command() -> None:
    known = {verb.words for verb in verbs()}
    for rule in rules():
        for command in re.findall(r"steelyard ((?:[a-z-]+ ?)+)", rule.get("what_to_do", "")):
            words = tuple(command.split())
            assert words[:2] in known or words[:1] in known, f"{rule['alert']} names {command!r}"


def test_the_scraper_finds_the_rules_and_the_page() -> None:
    settings = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    assert f"rule_files:\n  - {ALERTS.name}\n" in settings
    assert f'targets: ["127.0.0.1:{DASHBOARD_PORT}"]' in settings
