"""The blocks of code in README and docs, and what the comments before them say of them.

A comment of its own, ``<!-- word: text -->``, right before a block is about that block:

=====================  ==========================================================================
``exit: 3``            how the last command of a console block ends; 0 without it
``not run: REASON``    it cannot be run here; what can be checked without running it still is
``checked: HOW``       ``modules``, ``walkthrough`` and others: see ``checks``
``setup: NAME, ...``   functions of ``sample.SETUPS`` prepare the folder before the block
=====================  ==========================================================================
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from tests.conftest import REPOSITORY

WORDS = ("exit", "not run", "checked", "setup")

_FENCE = re.compile(r"^( *)(`{3,})(.*)$")
_COMMENT = re.compile(r"^ *<!-- ([a-z ]+?)(?:: (.+?))? -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its lines, and what was said of it."""

    page: str
    line: int
    language: str
    text: str
    said: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        return self.said.get("not run")


def find_pages() -> list[str]:
    """README and all pages of docs, by their paths in the repository."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    return [str(page.relative_to(REPOSITORY)) for page in pages]


def read_page(page: str) -> str:
    return (REPOSITORY / page).read_text("utf-8")


def find_blocks(page: str, text: str) -> list[Block]:
    """The fenced blocks of a page.

    Raises:
        ValueError: a fence is not closed, a comment before a block is not understood, or a block
            is indented instead of fenced, so that nobody would check it.
    """
    blocks: list[Block] = []
    said: dict[str, str] = {}
    lines = list(enumerate(text.splitlines(), 1))
    position = 0
    while position < len(lines):
        number, line = lines[position]
        position += 1
        if comment := _COMMENT.match(line):
            word, value = comment.groups()
            if word not in WORDS or not value:
                raise ValueError(f"{page}:{number}: no such comment: {line.strip()}")
            said[word] = value
        elif fence := _FENCE.match(line):
            body = []
            while position < len(lines) and lines[position][1].strip() != fence[2]:
                body.append(lines[position][1])
                position += 1
            if position == len(lines):
                raise ValueError(f"{page}:{number}: the block is not closed")
            position += 1
            content = textwrap.dedent("\n".join(body))
            blocks.append(Block(page, number, fence[3].strip(), content, said))
            said = {}
        elif line.strip():
            if said:
                raise ValueError(f"{page}:{number}: a comment is about a block, and here is none")
            if _is_code(line) and not (number > 1 and lines[number - 2][1].strip()):
                raise ValueError(f"{page}:{number}: indented code: fence it, so that it is checked")
    return blocks


def _is_code(line: str) -> bool:
    """Whether Markdown takes a line after an empty one for code."""
    return line.startswith("    ") and not re.match(r" *([-*+]|\d+\.) ", line)


def all_blocks() -> Iterator[Block]:
    for page in find_pages():
        yield from find_blocks(page, read_page(page))


def prose_of(text: str) -> str:
    """A page without its blocks."""
    return re.sub(r"^( *)(`{3,})[^\n]*\n.*?^ *\2$", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_code(text: str) -> list[str]:
    """What stands between backticks in the prose of a page."""
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", prose_of(text))
    return [" ".join(span.split()) for span in spans]


__all__ = ["Block", "all_blocks", "find_blocks", "find_pages", "inline_code", "read_page"]
