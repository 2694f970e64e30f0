"""Options as keywords: a client takes them as ``**settings``, and shows each of them to whoever asks what it takes.

Type checkers know them by a TypedDict. `help`, notebooks and editors that look at the running class read a signature,
and without this they would see only ``**settings``.
"""

from collections.abc import Callable
from inspect import Parameter, Signature, signature

__all__ = ["with_options"]


def with_options(make: Callable[..., None], options: type) -> Signature:
    """Return the signature of a client that is made by ``make``, with each option in place of ``**settings``.

    >>> class Options:
    ...     def __init__(self, group: str, retries: int = 2) -> None: ...
    >>> class Client:
    ...     def __init__(self, group: str, **settings: int) -> None: ...
    >>> str(with_options(Client.__init__, Options))
    '(group: str, *, retries: int = 2)'
    """
    _, *own = signature(make).parameters.values()
    named = [each for each in own if each.kind is not Parameter.VAR_KEYWORD]
    taken = {each.name for each in named}
    more = [each for each in signature(options).parameters.values() if each.name not in taken]
    return Signature([*named, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in more)])
