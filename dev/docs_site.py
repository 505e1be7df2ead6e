"""``python -m dev.docs_site``: prepare build/docs and build/mkdocs.yml for ``make docs``.

The pages are those of docs/, with links that GitHub follows and a site cannot, and the generated
ones of ``dev/reference_pages.py``. With ``--check``: fail if the built site loads something from
elsewhere, or has no index for its search.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final

from deltactl.cli.command_table import COMMANDS
from dev.hosting import ROOT, read_repository, read_version
from dev.reference_pages import render_reference

NAVIGATION: Final[dict[str, tuple[str, ...]]] = {
    "Start": (
        "README.md",
        "tutorial-first-table.md",
        "tutorial-incident.md",
        "tutorial-athena.md",
        "tutorial-autopilot.md",
    ),
    "Everyday": (
        *("describe-history.md", "describe-detail.md", "optimize.md", "vacuum.md"),
        *("layout.md", "checkpoint.md", "convert.md", "clone.md"),
        *("generate-manifest.md", "alter.md"),
    ),
    "Incident": ("troubleshooting.md", "restore.md", "check.md", "explain.md"),
    "Automate": (
        *(
            "maintain.md",
            "scheduling.md",
            "github-actions.md",
            "kubernetes.md",
            "airflow.md",
            "dagster.md",
        ),
        *("config.md", "spark.md", "python.md"),
    ),
    "Reference": (
        "@options",
        *("reference/errors.md", "reference/json.md", "reference/python.md"),
        *(
            "schemas/README.md",
            "where.md",
            "differences.md",
            "catalogs.md",
            "object-stores.md",
            "object-store-commits.md",
            "glossary.md",
        ),
        "changes.md",
    ),
    "Understand": (
        *("consistency.md", "security.md", "architecture.md", "contributing.md"),
        "@decisions",
    ),
}
"""Sections by task; ``@`` stands for all pages of options, and of decisions."""

_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")
_PICTURE: Final = re.compile(
    r'<picture>\s*<source media="[^"]*" srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">'
    r"\s*</picture>"
)
_FOREIGN: Final = re.compile(
    r'<(?:script|img|iframe|link(?! rel="canonical"))\b[^>]*\b(?:src|href)="?(?:https?:)?//[^>]*>'
)
_FENCE: Final = re.compile(r" *```")


def main() -> None:
    """Write the pages and the settings below build/."""
    target = ROOT / "build" / "docs"
    shutil.rmtree(target, ignore_errors=True)
    pages = collect_pages()
    for name, text in pages.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for path in (ROOT / "docs").rglob("*.*"):
        if path.suffix in (".json", ".svg", ".png"):
            copied = target / path.relative_to(ROOT / "docs")
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
    settings = {"INHERIT": "../mkdocs.yml", "nav": build_navigation(pages)}
    settings |= {"docs_dir": "docs", "site_dir": "site"}
    if repository := read_repository():
        settings["repo_url"] = f"https://github.com/{repository}"
    (ROOT / "build" / "mkdocs.yml").write_text(json.dumps(settings, indent=1), "utf-8")


def collect_pages() -> dict[str, str]:
    """Return the Markdown of each page, by its path in the site."""
    docs = ROOT / "docs"
    names = {str(path.relative_to(docs)): path for path in docs.rglob("*.md")}
    generated = render_reference(docs / "schemas")
    generated["changes.md"] = (ROOT / "CHANGELOG.md").read_text("utf-8")
    generated["adr/README.md"] = _list_decisions(names)
    known = {*names, *generated, *(f"schemas/{it.name}" for it in docs.glob("schemas/*.json"))}
    known |= {str(path.relative_to(docs)) for path in docs.glob("pictures/*")}
    texts = {name: path.read_text("utf-8") for name, path in names.items()} | generated
    return {name: adapt(name, text, known) for name, text in texts.items()}


def _list_decisions(names: dict[str, Path]) -> str:
    lines = ["# Decisions", ""]
    for name in sorted(names):
        if name.startswith("adr/"):
            title = names[name].read_text("utf-8").partition("\n")[0].lstrip("# ")
            lines.append(f"- [{title}]({name.removeprefix('adr/')})")
    return "\n".join([*lines, ""])


def adapt(name: str, text: str, known: set[str]) -> str:
    """Return a page with links that the site can follow, and lists as Python-Markdown reads them.

    A link to a directory leads to its index. One that leaves docs/ leads to the repository, or is
    left out as long as that has no address. A picture for light and dark follows the switch of the
    site instead of the system.
    """
    folder = PurePosixPath("docs", name).parent

    def follow(match: re.Match[str]) -> str:
        label, address, anchor = match[1], match[2], match[3] or ""
        path = normpath(str(folder / address))
        inside = path.removeprefix("docs/")
        if path.startswith("docs/") and f"{inside}/README.md" in known:
            return f"[{label}]({address.rstrip('/')}/README.md{anchor})"
        if path.startswith("docs/") and inside in known:
            return match[0]
        if path == "CHANGELOG.md":
            return f"[{label}]({'../' * (name.count('/'))}changes.md{anchor})"
        repository = read_repository()
        tag = f"v{read_version()}"
        return (
            f"[{label}](https://github.com/{repository}/blob/{tag}/{path})" if repository else label
        )

    text = _PICTURE.sub(r"![\2](\3#only-light)\n![\2](\1#only-dark)", text)
    lines = indent_lists(text.splitlines())
    return "\n".join(_LINK.sub(follow, line) for line in lines) + "\n"


def indent_lists(lines: list[str]) -> Iterator[str]:
    """Return lines whose list items are indented by four, and begin after an empty line."""
    width, is_code, before = 0, False, ""  # width of the marker of the item that a line is in
    for line in lines:
        item = None if is_code else re.match(r"(?:[-*]|\d+\.) +", line)
        is_code ^= _FENCE.match(line) is not None
        if item:
            if before and not width:
                yield ""
            width = len(item[0])
        elif line.strip() and not before and not line.startswith(" " * max(width, 1)):
            width = 0
        is_inside = width and not item and line.startswith(" " * width)
        yield f"    {line[width:]}" if is_inside else line
        before = line.strip()


def build_navigation(pages: Mapping[str, str]) -> list[dict[str, list[object]]]:
    """Return the navigation for mkdocs, with the titles of the pages.

    A page that is in no section is at the end of Start if it is a tutorial, of Everyday if it is of
    a command, else of Understand.

    Raises:
        ValueError: a section names a page that does not exist.
    """
    commands = {f"{spec.name}.md" for spec in COMMANDS}
    groups = {
        "@options": [f"reference/{spec.name}.md" for spec in COMMANDS if not spec.is_hidden],
        "@decisions": sorted(name for name in pages if name.startswith("adr/")),
    }
    titles = {"@options": "Options", "@decisions": "Decisions"}
    named = {
        name for entries in NAVIGATION.values() for it in entries for name in groups.get(it, [it])
    }
    if wrong := named - pages.keys():
        raise ValueError(f"the navigation names missing pages: {', '.join(sorted(wrong))}")
    rest = sorted(pages.keys() - named)
    more: dict[str, list[str]] = {}
    for name in rest:
        other = "Everyday" if name in commands else "Understand"
        section = "Start" if name.startswith("tutorial-") else other
        more.setdefault(section, []).append(name)

    def show(entry: str) -> dict[str, object]:
        if entry in groups:
            return {titles[entry]: [{_title(pages, name): name} for name in groups[entry]]}
        return {_title(pages, entry): entry}

    return [
        {section: [show(entry) for entry in (*entries, *more.get(section, ()))]}
        for section, entries in NAVIGATION.items()
    ]


def _title(pages: Mapping[str, str], name: str) -> str:
    if name == "README.md":
        return "Overview"
    text = pages.get(name, "# ?")
    title = text.partition("\n")[0].lstrip("# ").replace("`", "")
    return title.removeprefix("Options of ").removeprefix("deltactl ")


def check_site(site: Path) -> list[str]:
    """Return what is wrong with a built site."""
    pages = sorted(site.rglob("*.html"))
    wrong = [
        f"{page.relative_to(site)} loads {found[0]}"
        for page in pages
        for found in _FOREIGN.finditer(page.read_text("utf-8"))
    ]
    index = site / "search" / "search_index.json"
    if not index.exists() or len(json.loads(index.read_text("utf-8"))["docs"]) < len(pages):
        wrong.append("the index for the search is missing or not whole")
    return wrong


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(check_site(ROOT / "build" / "site")) or None)
    main()
