"""``python -m tests.docs [PAGE ...]``: show in the pages what their commands print today."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.docs import checks
from tests.docs.blocks import Block, find_blocks, find_pages, read_page
from tests.docs.sample import build_tables, prepare
from tests.docs.sandbox import Sandbox, is_shown, read_screen


def rewrite(page: str, box: Sandbox) -> None:
    """Run a page, and write back what its console blocks show, where that is no longer so."""
    text = read_page(page)
    lines = text.splitlines()
    changes: list[tuple[Block, list[str]]] = []
    for block in find_blocks(page, text):
        prepare(block.said.get("setup"), box.folder)
        if block.language == "console" and not block.reason:
            changes.append((block, _screen(block, box)))
        else:
            checks.CHECKS[block.language](block, box)
    for block, new in reversed(changes):
        lines[block.line : block.line + len(block.text.splitlines())] = new
    (REPOSITORY / page).write_text("\n".join(lines) + "\n", "utf-8")


def _screen(block: Block, box: Sandbox) -> list[str]:
    """What is shown may leave lines out by ``...``, as long as the rest is so."""
    new: list[str] = []
    for typed in read_screen(block.text):
        printed = box.unplace(box.run(typed.command))
        shown = typed.shown if is_shown(typed.shown, printed) else printed.strip("\n")
        new += [*typed.lines, *(line.rstrip() for line in shown.splitlines())]
    return new


def main(pages: list[str]) -> None:
    for name in list(os.environ):
        if name.startswith("DELTACTL_"):
            del os.environ[name]
    os.environ |= {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PYTHONPATH": str(REPOSITORY)}
    for page in pages or find_pages():
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            os.environ |= {
                "HOME": scratch,
                "XDG_CACHE_HOME": f"{scratch}/cache",
                "XDG_CONFIG_HOME": f"{scratch}/config",
            }
            folder = Path(scratch) / "data"
            folder.mkdir()
            build_tables(folder)
            os.chdir(folder)
            rewrite(page, Sandbox(folder))
            print(page)


if __name__ == "__main__":
    main(sys.argv[1:])
