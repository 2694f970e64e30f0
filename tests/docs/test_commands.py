"""Every command line that a page or a help shows is one that the command line understands: noun, verb, options, values.

What sessions print is compared where they are run: tests/cli/test_sessions.py and test_tutorial.py.
"""

from tests.docs.command_tree import verbs
from tests.docs.commands import Shown, command_complaint, named_commands, shown_commands
from tests.docs.docs_pages import read
from tests.tidy.tree import complain, pages


def test_every_command_on_a_page_is_understood() -> None:
    shown = [each for page in pages() for find in (shown_commands, named_commands) for each in find(page, read(page))]
    assert shown
    complain(filter(None, map(command_complaint, shown)))


def test_every_example_of_a_help_is_understood_and_every_verb_has_one() -> None:
    complaints: list[str] = []
    for verb in verbs():
        name = " ".join(verb.words)
        _, _, listed = str(verb.command.epilog or "").partition("Examples:")
        shown = list(shown_commands(f"steelyard {name} --help", f"```sh\n{listed.strip()}\n```"))
        if not any(each.words[: len(verb.words)] == verb.words for each in shown):
            complaints.append(f"`steelyard {name} --help` has no example of its own")
        complaints += filter(None, map(command_complaint, shown))
    complain(complaints)


def test_a_wrong_command_is_seen() -> None:
    def complaint(line: str) -> str:
        return "".join(command_complaint(each) for each in shown_commands("page.md", f"```console\n$ {line}\n```"))

    assert not complaint("steelyard send orders --body hello")
    assert not complaint("NO_COLOR=1 steelyard topic ls | head -1")
    assert not complaint("steelyard topic … --yes")
    assert "knows no 'tropic'" in complaint("steelyard tropic ls")
    assert "knows no 'lst'" in complaint("steelyard topic lst")
    assert "--bdy" in complaint("steelyard send orders --bdy hello")
    assert "many" in complaint("steelyard up --brokers many")
    assert not complaint("steelyard topic show orders 2> /dev/null")
    assert "--bdy" in complaint("echo $(steelyard send orders --bdy hello)")
    assert "--bdy" in complaint("cat letters | steelyard send orders --bdy hello > out")


def test_a_wrong_command_in_a_sentence_is_seen() -> None:
    def complaint(text: str) -> str:
        return "".join(map(command_complaint, named_commands("page.md", text)))

    assert not complaint("See `steelyard topic`, `steelyard topic create` and `steelyard topic\nls --json`.")
    assert "page.md:2" in complaint("See\n`steelyard topic lst`.")


def test_commands_are_found_where_lines_go_on() -> None:
    (shown,) = shown_commands("page.md", "```console\n$ steelyard send orders \\\n    --body hello\nstored\n```")
    assert shown == Shown("page.md", 2, ("send", "orders", "--body", "hello"))
