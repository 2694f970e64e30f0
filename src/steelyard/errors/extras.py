"""How an extra is installed, as messages say it: the one place to change once the package is published.

For pages that place is docs/install.md.
"""

__all__ = ["how_to_install"]


def how_to_install(extras: str) -> str:
    """Say what brings an extra, or several with commas between them.

    >>> how_to_install("spark,local")
    "run in a clone of Steelyard: pip install -e '.[spark,local]'"
    """
    return f"run in a clone of Steelyard: pip install -e '.[{extras}]'"
