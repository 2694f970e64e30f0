"""Members' ids as people can read them: as short as it gets while each is still another's.

An id has an address, perhaps a name, and a tail of numbers that makes it unique: `10.0.0.7@till-1#4711#17…@sy1`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["short_names", "shortened"]


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a short name for each id: its name, its address and name, or all of it, whichever no other has.

    >>> short_names(["10.0.0.7@till-1#47#11@sy1", "10.0.0.7@till-2#48#12@sy1", "10.0.0.8@49#13@sy1"])
    {'10.0.0.7@till-1#47#11@sy1': 'till-1', '10.0.0.7@till-2#48#12@sy1': 'till-2', '10.0.0.8@49#13@sy1': '10.0.0.8@49'}
    """
    listed = list(dict.fromkeys(ids))
    forms = {each: (*_forms(each), each) for each in listed}
    taken = Counter(form for several in forms.values() for form in dict.fromkeys(several))
    return {each: next((form for form in forms[each] if taken[form] == 1), each) for each in listed}


def _forms(name: str) -> tuple[str, ...]:
    head, _, _ = name.partition("#")
    _, _, own = head.partition("@")
    # A number alone is a process: that says little without the machine.
    return (own, head) if own and not own.isdigit() else (head,)


def shortened(text: str, names: Mapping[str, str]) -> str:
    """Put short names in the place of ids.

    >>> shortened("10.0.0.7@till-1#47#11@sy1 left", short_names(["10.0.0.7@till-1#47#11@sy1"]))
    'till-1 left'
    """
    # The longest first: one id may begin another.
    for each in sorted(names, key=len, reverse=True):
        text = text.replace(each, names[each])
    return text
