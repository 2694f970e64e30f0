"""Every link of the documentation and of the pages beside it leads somewhere: to a file, and to a heading of it."""

from collections.abc import Iterator

from tests.docs.docs_pages import anchors, links, pages_of_docs, read, target
from tests.docs.generate import BUILT
from tests.tidy.tree import ROOT, complain, pages


def test_every_link_leads_somewhere() -> None:
    complain(line for page in pages() for line in link_complaints(page, read(page)))


def test_links_of_the_site_stay_inside_of_it() -> None:
    complain(
        f"{link.page}:{link.line} links to {link.to}, which is no page of the site: name it in words"
        for page in pages_of_docs()
        for link in links(page, read(page))
        if (found := target(link)) is not None and not found[0].startswith("docs/")
    )


def test_a_broken_link_is_seen() -> None:
    def complaints(text: str) -> list[str]:
        return list(link_complaints("docs/index.md", text))

    assert not complaints("[a](https://example.org) `[b](nowhere.md)` [c](../README.md)\n```text\n[d](nowhere.md)\n```")
    assert "nowhere.md, which does not exist" in complaints("words\n[a](nowhere.md)")[0]
    assert "docs/index.md:2" in complaints("words\n![a](nowhere.svg)")[0]
    assert "docs/index.md:1" in complaints("[two\nlines](nowhere.md)")[0]
    assert not complaints("# Two words\n[a](#two-words)")
    assert "no heading" in complaints("# Two words\n[a](#three-words)")[0]


def link_complaints(page: str, text: str) -> Iterator[str]:
    """Say which links of a page lead nowhere."""
    for link in links(page, text):
        found = target(link)
        if found is None:
            continue
        path, anchor = found
        if path in BUILT:
            continue
        if path != page and not (ROOT / path).exists():
            yield f"{page}:{link.line} links to {link.to}, which does not exist"
        elif anchor and path.endswith(".md") and anchor not in anchors(text if path == page else read(path)):
            yield f"{page}:{link.line} links to {link.to}, and there is no heading of that name"
