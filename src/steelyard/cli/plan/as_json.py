"""A plan as programs read it: one JSON object a line, the same for a group in a file and for a live one."""

import msgspec
import typer

from steelyard.balance.allocate import Plan
from steelyard.balance.explain import Explanation

__all__ = ["print_plan"]


def print_plan(plan: Plan, told: Explanation, **known: object) -> None:
    """Print a plan, how much it moves and how even it is, behind whatever else is known of it."""
    answer = {
        **known,
        "assignment": plan,
        "moved": told.moved,
        "least": told.least,
        "max": told.most,
        "min": told.fewest,
    }
    # As bytes: JSON is UTF-8, whatever the terminal speaks.
    typer.echo(msgspec.json.encode(answer))
