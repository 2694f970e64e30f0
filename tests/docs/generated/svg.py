"""Pictures as text: a few shapes of SVG, readable on a light and on a dark page, and the same for the same numbers."""

from collections.abc import Iterable
from html import escape

COLOURS = ("#3b6fb6", "#d9822b", "#4c9a5b", "#8e5ea2", "#b04a4a")
"""Members, in their order."""
INK = "#30363d"
PALE = "#8b949e"

_MARKS = "".join(
    f'<marker id="end{number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
    f'markerUnits="userSpaceOnUse" orient="auto">'
    f'<path d="M0 0 L8 4 L0 8 z" fill="{colour}"/></marker>'
    for number, colour in enumerate((INK, PALE, *COLOURS))
)


def picture(width: int, height: int, title: str, shapes: Iterable[str]) -> str:
    """Put shapes on a sheet; the title is for readers who cannot see it."""
    drawn = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13">\n<title>{escape(title)}</title>\n<defs>{_MARKS}</defs>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>\n{drawn}\n</svg>\n'
    )


def box(x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "none", dash: bool = False) -> str:
    """Draw a rectangle."""
    dashes = ' stroke-dasharray="4 3"' if dash else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="1.5"{dashes}/>'
    )


def label(
    x: float, y: float, text: str, *, fill: str = INK, anchor: str = "middle", size: int = 13, bold: bool = False
) -> str:
    """Write a text."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}" font-size="{size}"{weight}>'
        f"{escape(text)}</text>"
    )


def arrow(x: float, y: float, to_x: float, to_y: float, *, colour: str = INK) -> str:
    """Draw a straight arrow."""
    return curve(f"M{x:g} {y:g} L{to_x:g} {to_y:g}", colour=colour)


def curve(path: str, *, colour: str = INK, dash: bool = False, width: float = 1.5) -> str:
    """Draw an arrow along a path."""
    mark = (INK, PALE, *COLOURS).index(colour)
    dashes = ' stroke-dasharray="5 4"' if dash else ""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes} '
        f'marker-end="url(#end{mark})"/>'
    )
