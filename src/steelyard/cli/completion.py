"""`steelyard completion`: the script that lets a shell complete nouns, verbs, options, and live names of the cluster.

steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard
steelyard completion zsh > "${fpath[1]}/_steelyard"
steelyard completion fish > ~/.config/fish/completions/steelyard.fish
"""

from enum import StrEnum
from typing import Annotated

import typer

from steelyard.cli.frame.nouns import verb

__all__ = ["COMPLETE_VARIABLE", "completion"]

COMPLETE_VARIABLE = "_STEELYARD_COMPLETE"
"""Set by a shell that wants to know how a line may go on."""

# A file of zsh's is run as a function when it is first needed, and has to complete right then.
_ZSH_KNOWS_IT = "compdef _steelyard_completion steelyard"
_ZSH_CALLS_IT = f"""if [ "$funcstack[1]" = "_steelyard" ]; then
  _steelyard_completion "$@"
else
  {_ZSH_KNOWS_IT}
fi"""


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@verb(
    "steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard",
    "steelyard completion zsh > ~/.zfunc/_steelyard",
    "steelyard completion fish > ~/.config/fish/completions/steelyard.fish",
)
def completion(
    shell: Annotated[
        _Shell, typer.Argument(metavar="SHELL", help="Which shell: bash, zsh or fish.", show_default=False)
    ],
) -> None:
    """Print the script that makes a shell complete what is typed, with the names of topics and groups."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="steelyard", complete_var=COMPLETE_VARIABLE, shell=shell.value)
    if shell is _Shell.ZSH:
        script = script.replace(_ZSH_KNOWS_IT, _ZSH_CALLS_IT)
    typer.echo(script)
