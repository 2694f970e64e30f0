"""Passwords and secrets: from a pipe, from a person at a terminal who is asked for it, or from the command line.

A command line is seen by everybody on the machine and stays in a shell's history, so it is the last choice.
"""

import sys
from typing import Annotated

import typer

from steelyard.errors import ConfigurationError

__all__ = ["FromStdin", "Password", "Secret", "SecretFromStdin", "secret_of"]

_LONGEST = 4_096

Password = Annotated[str | None, typer.Option("--password", help="Safer through --password-stdin.", show_default=False)]
FromStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin, one line.")]
Secret = Annotated[str | None, typer.Option("--secret", help="Safer through --secret-stdin.", show_default=False)]
SecretFromStdin = Annotated[bool, typer.Option("--secret-stdin", help="Read the secret from stdin, one line.")]


def secret_of(given: str | None, from_stdin: bool, *, name: str, needed: bool) -> str | None:
    """Return a secret; if it is needed and not given, a person is asked for it. ``name`` is what it is called."""
    if given is not None and from_stdin:
        raise ConfigurationError(f"the {name} is given twice", next_step=f"give --{name} or --{name}-stdin")
    found = given
    if from_stdin:
        found = sys.stdin.readline(_LONGEST).rstrip("\r\n")
    elif found is None and needed:
        found = _asked(name)
    if found is not None and not found.strip():
        raise ConfigurationError(f"the {name} is empty", next_step="give at least one character")
    return found


def _asked(name: str) -> str:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError(f"the {name} is missing", next_step=f"pipe it in and say --{name}-stdin")
    from getpass import getpass

    first = getpass(f"{name}: ", stream=sys.stderr)
    if getpass(f"{name}, once more: ", stream=sys.stderr) != first:
        raise ConfigurationError(f"the two {name}s are not the same", next_step="try again")
    return first
