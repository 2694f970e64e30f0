"""The page about the command line: every noun, verb, option and example, and the list of pages with sessions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import click

from steelyard.cli.main import COMMANDS, app
from steelyard.cli.shared.parameters import DescribedArgument, PanelOption
from tests.docs.command_tree import Verb, commands, context_of, verbs
from tests.docs.generated.sources import cell, code
from tests.tidy.tree import ROOT

_OPENING = """# Command line

All commands and their options, generated from the code; `--help` prints the same. Results are on stdout, everything
else is on stderr, and [exit codes](exit-codes.md) tell the kind of failure. [Sessions](../cli/index.md) show each
command at work.

- `NO_COLOR` switches colours off.
- Without a terminal, a command that would destroy something needs `--yes`.
"""

_MANY = 10
_SHARED = "Options of many commands"
_SAYS = "These are not repeated below: where the cluster is, and how the result is printed."
_INDEX = """# The command line at work

One page for each command, with a session as it looks on a terminal. The sessions are tests: they run on a cluster of
two brokers with every change. [Every option](../reference/cli.md) is in the reference.

```sh
kubectl logs … | steelyard send orders --lines                     # one message a line
steelyard consume orders --from first --json | jq .                # leaves no trace; with --group it joins one
steelyard consume orders --from -100 --exit-at-end --format '%t %q %o %k %s\\n'
steelyard topic create orders --queues 16
steelyard offset reset billing --to '2 hours ago' --dry-run        # what would be skipped, what redelivered
steelyard dead-letters resend billing --all --dry-run
steelyard check group billing --lag-warn 1000 --lag-crit 10000     # for monitoring: 0 ok, 1 warning, 2 critical
steelyard doctor                                                   # names, ports, versions, clocks, groups
```

It works on our servers and on Apache's, prints tables on a terminal and `--output json`, `jsonl` or `csv` for programs,
asks before something is lost, and completes the names of topics and groups (`steelyard completion bash`). [A
table](../reference/mqadmin.md) has every command of `mqadmin` with ours beside it: 72 of its 98 jobs.
"""


def cli_page() -> str:
    """Write the page."""
    all_verbs = list(verbs())
    shared = _shared(all_verbs)
    parts = [_OPENING.strip(), f"## {_SHARED}", _SAYS, _options(shared.values())]
    for noun, group in groupby(all_verbs, key=lambda verb: verb.words[0]):
        parts.append(f"## {noun}")
        page = f"docs/cli/{noun}.md"
        of_noun = list(group)
        if len(of_noun[0].words) > 1:
            parts.append(_sentence(next(command for words, command in commands() if words == (noun,))))
        if (ROOT / page).is_file():
            parts.append(f"[A session](../cli/{noun}.md)")
        for verb in of_noun:
            parts += _verb(verb, shared)
    return "\n\n".join(part for part in parts if part) + "\n"


def cli_index() -> str:
    """Write the list of pages with sessions, as the command line lists the nouns."""
    parts = [_INDEX.strip()]
    for title, panel in COMMANDS.items():
        rows = [f"| {_linked(name)} | {cell(summary)} |" for name, summary in panel.items()]
        parts += [f"## {title}", "\n".join(["| command | what it does |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def _linked(noun: str) -> str:
    return f"[{noun}]({noun}.md)" if (ROOT / f"docs/cli/{noun}.md").is_file() else f"`{noun}`"


def _verb(verb: Verb, shared: dict[str, click.Parameter]) -> Iterator[str]:
    command = verb.command
    if len(verb.words) > 1:
        yield f"### {' '.join(verb.words)}"
    pieces = command.collect_usage_pieces(context_of(command))
    yield f"```text\n{' '.join(('steelyard', *verb.words, *pieces))}\n```"
    yield _sentence(command)
    own = [param for param in command.params if _key(param) not in shared]
    if own:
        yield _options(own)
    reported = [param for param in command.params if _key(param) in shared]
    if reported:
        yield f"And [those that say where the cluster is](#{_SHARED.lower().replace(' ', '-')})."
    examples = _examples(command)
    if examples:
        yield "```sh\n" + "\n".join(examples) + "\n```"


def _shared(all_verbs: list[Verb]) -> dict[str, click.Parameter]:
    """Return the options that mean the same for many verbs, and that the help lists under a title of their own."""
    found: dict[str, click.Parameter] = {}
    counted: Counter[str] = Counter()
    for verb in all_verbs:
        for param in verb.command.params:
            if _panel(param) != "Options":
                found.setdefault(_key(param), param)
                counted[_key(param)] += 1
    return {key: param for key, param in found.items() if counted[key] >= _MANY}


def _panel(param: click.Parameter) -> str:
    return param.panel if isinstance(param, PanelOption) else "Options"


def _key(param: click.Parameter) -> str:
    return f"{'/'.join(param.opts)} {_panel(param)} {_help(param)}"


def _options(params: Iterable[click.Parameter]) -> str:
    rows = [f"| {_name(param)} | {_default(param)} | {cell(_help(param))} |" for param in params]
    return "\n".join(["| | default | what it does |", "|---|---|---|", *rows])


def _name(param: click.Parameter) -> str:
    metavar = code(param.make_metavar(context_of(app)))
    if not isinstance(param, click.Option):
        return metavar
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} {metavar}"


def _default(param: click.Parameter) -> str:
    shown = param.show_default if isinstance(param, DescribedArgument | click.Option) else None
    if shown and isinstance(shown, str):
        return cell(shown)
    if param.required:
        return "it has to be given"
    return code(str(param.default)) if shown else ""


def _help(param: click.Parameter) -> str:
    text = param.description if isinstance(param, DescribedArgument) else param.help or ""
    return f"{text} Also: `{param.envvar}`." if param.envvar else text


def _sentence(command: click.Command) -> str:
    """Return what a command says of itself; paragraphs that are to stay as they are become fences."""
    complaints = str(command.help or "").partition("\f")[0].strip()
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", complaints):
        if paragraph.lstrip().startswith("\b"):
            kept = paragraph.lstrip().removeprefix("\b").strip("\n")
            paragraphs.append(f"```text\n{kept}\n```")
        else:
            paragraphs.append(re.sub(r"``([^`]+)``", r"`\1`", paragraph.strip()))
    return "\n\n".join(paragraphs)


def _examples(command: click.Command) -> list[str]:
    _, _, listed = str(command.epilog or "").partition("Examples:")
    whole = re.sub(r" \\\n\s+", " ", listed)  # a page has room for what a help folds
    return [line.strip() for line in whole.splitlines() if line.strip()]
