"""The terminal session of every command, as its page shows it, on our servers or (STEELYARD_LIVE) on Apache's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.cli.main import COMMANDS
from steelyard.serve.embedded import Cluster
from tests.cli.sessions import PAGES, play, steps_of
from tests.docs.command_tree import commands, verbs
from tests.interop.jars import NotReady
from tests.live.clusters import EMBEDDED, chosen, running

_SECONDS = 300


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """Give the name server of Apache's servers, one for all pages; None for ours, which every page gets anew."""
    if chosen() == EMBEDDED:
        yield None
        return
    try:
        with running(chosen(), tmp_path_factory.mktemp("sessions")) as live:
            yield live.namesrv
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.mark.process
@pytest.mark.timeout(_SECONDS)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.spark) if page == "pipeline" else page for page in PAGES]
)
def test_a_session_goes_as_its_page_shows(page: str, shared: str | None, tmp_path: Path) -> None:
    if shared is not None:
        play(page, shared, "apache", tmp_path)
    else:
        with Cluster(brokers=2) as cluster:
            assert play(page, cluster.namesrv, "ours", tmp_path)


def test_every_command_has_a_page() -> None:
    assert set(PAGES) == {name for panel in COMMANDS.values() for name in panel}


@pytest.mark.parametrize("name", [name for panel in COMMANDS.values() for name in panel])
def test_the_page_of_a_command_shows_each_of_its_subcommands(name: str) -> None:
    typed = [step.command for step in steps_of(name)]
    paths = [" ".join(verb.words) for verb in verbs() if verb.words[0] == name]
    missing = [path for path in paths if not any(path in line for line in typed)]
    assert not missing, f"docs/cli/{name}.md does not show: {', '.join(missing)}"


def test_every_help_has_examples_that_begin_with_the_command() -> None:
    without = []
    for verb in verbs():
        path = " ".join(verb.words)
        if f"  steelyard {path}" not in (verb.command.epilog or "").partition("Examples:")[2]:
            without.append(path)
    assert not without, f"no example in the help of: {', '.join(without)}"


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    for panel in COMMANDS.values():
        for name, summary in panel.items():
            command = next(command for words, command in commands() if words == (name,))
            output = (command.help or "").partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")
            assert summary.rstrip(".") == output, f"cli/main.py says of {name}: {summary}"
