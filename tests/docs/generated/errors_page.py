"""The pages about errors and about exit codes: the tree, each class with whose fault it is, and what a script sees."""

import inspect

from steelyard import errors
from steelyard.cli.shared import exit_codes
from tests.docs.generated.sources import cell, first_sentence

_ERRORS = """# Errors

All errors that Steelyard raises on purpose are in one tree, `steelyard.errors`. A message is a sentence that says
what happened and where, and then what to do next. Facts are attributes of the error. `fault` says whose fault it is,
`retry` whether trying again can help: a program decides by asking the error, and needs no list of its own.

```text
steelyard.errors.TopicNotFound: topic 'ordres' does not exist on localhost:9876 (asked broker-0, broker-1).
  Did you mean 'orders'? Create it with: steelyard topic create ordres
```

Where Python has a class of its own, an error is that, too: `except TimeoutError` catches `TimedOut`, and `except
ConnectionError` catches `CannotConnect`.
"""

_EXITS = """# Exit codes

The exit code of a command tells the kind of failure. The error is on stderr; stdout has only results.
"""

_OTHERWISE = """## Commands with other codes

- `steelyard check` is for monitoring and has the codes of Nagios plug-ins: 0 ok, 1 warning, 2 critical (also if no
  server can be reached), 3 unknown.
- `steelyard doctor` ends with 1 if something is wrong, and with 5 if no server can be reached.
- `steelyard store verify` ends with 1 if it found damage.
"""


def errors_page() -> str:
    """Write the page about errors."""
    return (
        "\n\n".join(
            [_ERRORS.strip(), "## The tree", f"```text\n{_tree()}\n```", "## Each error", _table()],
        )
        + "\n"
    )


def exits_page() -> str:
    """Write the page about exit codes."""
    rows = [line.strip() for line in (exit_codes.__doc__ or "").splitlines() if line.strip().startswith("|")]
    return (
        "\n\n".join([_EXITS.strip(), "\n".join(rows), "## Which error leads to which", _by_code(), _OTHERWISE.strip()])
        + "\n"
    )


def _kinds() -> list[type[errors.SteelyardError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [kind for kind in found if inspect.isclass(kind) and issubclass(kind, errors.SteelyardError)]


def _tree() -> str:
    """Return the tree as the code draws it."""
    lines = inspect.cleandoc(errors.__doc__ or "").splitlines()
    drawn = [line for line in lines if line.startswith("    ")]
    return "\n".join(line.removeprefix("    ") for line in drawn)


def _table() -> str:
    rows = [
        f"| `{kind.__name__}` | {cell(first_sentence(kind.__doc__))} | {kind.fault.value} | {kind.retry.value} |"
        for kind in _kinds()
    ]
    return "\n".join(["| error | what it says | whose fault | does trying again help? |", "|---|---|---|---|", *rows])


def _by_code() -> str:
    by_code: dict[int, list[str]] = {}
    for kind in _kinds():
        # The code follows from the class, so it needs none of the facts that an error carries.
        by_code.setdefault(exit_codes.exit_code_for(kind.__new__(kind)).value, []).append(f"`{kind.__name__}`")
    rows = [f"| {code} | {', '.join(sorted(names))} |" for code, names in sorted(by_code.items())]
    return "\n".join(["| code | errors |", "|---|---|", *rows])
