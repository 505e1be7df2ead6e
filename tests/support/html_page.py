"""A page of HTML read by a parser that is not ours: its tree, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"meta", "br"})


@dataclass
class Node:
    """An element: ``children`` are elements and texts in their order."""

    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def all(self, tag: str | None = None) -> Iterator[Node]:
        """This element and those below it, of one tag or of any."""
        if tag is None or self.tag == tag:
            yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.all(tag)

    def one(self, tag: str) -> Node:
        """The only element of a tag."""
        (found,) = self.all(tag)
        return found

    def rows(self, part: str = "tbody") -> list[list[str]]:
        """The texts of a table's cells, rows of its body or another part."""
        body = self.one(part)
        return [[c.text for c in r.children if isinstance(c, Node)] for r in body.all("tr")]

    def table(self, name: str) -> Node:
        """The table whose name begins so."""
        (found,) = (t for t in self.all("table") if t.attributes["aria-label"].startswith(name))
        return found


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("#document", {})
        self.open = [self.root]

    def handle_decl(self, decl: str) -> None:
        assert decl == "DOCTYPE html"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")


def parse_page(text: str) -> Node:
    """Read a page; each element has to be closed where it should."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert builder.open == [builder.root], "not closed"
    return builder.root.one("html")
