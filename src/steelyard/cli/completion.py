"""`steelyard completion`: a script for shell completion of subcommands, options, and names in the cluster.

steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard
steelyard completion zsh > "${fpath[1]}/_steelyard"
steelyard completion fish > ~/.config/fish/completions/steelyard.fish
"""

from enum import StrEnum
from typing import Annotated

import typer

from steelyard.cli.shared.commands import COMPLETE_VARIABLE, help_examples

# zsh runs the file as a function on first use, which has to complete right then.
_ZSH_REGISTER = "compdef _steelyard_completion steelyard"
_ZSH_AUTOLOAD = f"""if [ "$funcstack[1]" = "_steelyard" ]; then
  _steelyard_completion "$@"
else
  {_ZSH_REGISTER}
fi"""


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@help_examples(
    "steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard",
    "steelyard completion zsh > ~/.zfunc/_steelyard",
    "steelyard completion fish > ~/.config/fish/completions/steelyard.fish",
)
def completion(
    shell: Annotated[
        _Shell, typer.Argument(metavar="SHELL", help="Which shell: bash, zsh or fish.", show_default=False)
    ],
) -> None:
    """Print a script for shell completion, which knows topics and groups."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="steelyard", complete_var=COMPLETE_VARIABLE, shell=shell.value)
    if shell is _Shell.ZSH:
        script = script.replace(_ZSH_REGISTER, _ZSH_AUTOLOAD)
    typer.echo(script)
