"""`steelyard completion`: a script for shell completion of subcommands, options, and names in the cluster.

steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard
steelyard completion zsh > "${fpath[1]}/_steelyard"
steelyard completion fish > ~/.config/fish/completions/steelyard.fish
"""

from typing import Annotated

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from steelyard.cli.shared.commands import COMPLETE_VARIABLE, command
from steelyard.cli.shared.parameters import argument
from steelyard.errors import ConfigurationError

_SHELLS = {each.name: each for each in (BashComplete, ZshComplete, FishComplete)}


@command(
    "steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard",
    "steelyard completion zsh > ~/.zfunc/_steelyard",
    "steelyard completion fish > ~/.config/fish/completions/steelyard.fish",
)
def completion(shell: Annotated[str, argument(metavar="SHELL", help="Which shell: bash, zsh or fish.")]) -> None:
    """Print a script for shell completion, which knows topics and groups."""
    if shell not in _SHELLS:
        raise ConfigurationError(f"{shell!r} is no shell with completion", next_step="give bash, zsh or fish")
    root = click.get_current_context().find_root()
    print(_SHELLS[shell](root.command, {}, "steelyard", COMPLETE_VARIABLE).source())
