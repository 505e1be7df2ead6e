"""The site: every page is in the navigation, every link leads somewhere, the reference is whole."""

import json
import re
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest
import yaml

import deltactl
from deltactl.cli.app import build_group
from deltactl.codes import load_codes
from dev.docs_site import adapt, build_navigation, check_site, collect_pages, indent_lists
from dev.program import describe_program
from dev.reference_pages import render_schemas
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return collect_pages()


def test_every_page_is_in_the_navigation_once(pages: dict[str, str]) -> None:
    sections = build_navigation(pages)
    assert [next(iter(section)) for section in sections] == [
        "Start", "Everyday", "Incident", "Automate", "Reference", "Understand",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="vacuum\\.md"):
        build_navigation({name: text for name, text in pages.items() if name != "vacuum.md"})


def names_in(node: object) -> list[str]:
    match node:
        case dict():
            return [name for value in node.values() for name in names_in(value)]
        case list():
            return [name for value in node for name in names_in(value)]
    return [str(node)]


def test_a_new_page_finds_its_section(pages: dict[str, str]) -> None:
    added = {"tutorial-x.md": "# X", "more.md": "# More"}
    sections = {
        title: names_in(entries)
        for section in build_navigation({**pages, **added})
        for title, entries in section.items()
    }
    assert sections["Start"][-1] == "tutorial-x.md"
    assert "more.md" in sections["Understand"]
    assert sorted(sum(sections.values(), [])) == sorted({**pages, **added})  # none is left out


def test_links_stay_in_the_site(pages: dict[str, str]) -> None:
    files = {
        str(path.relative_to(REPOSITORY / "docs")) for path in (REPOSITORY / "docs").rglob("*")
    }
    wrong = [
        (name, target)
        for name, text in pages.items()
        for target in re.findall(r"(?<!`)\]\((?!https?:|#)([^)\s#]+)", text)
        if normpath(join(dirname(name), target)) not in {*pages, *files}
    ]
    assert wrong == []


def test_every_option_is_in_the_reference(pages: dict[str, str]) -> None:
    for _, doc in describe_program(build_group()).commands:
        page = pages[f"reference/{doc.name}.md"]
        assert [option.name for option in doc.options if f"`--{option.name}`" not in page] == []
        assert all(example in page for example in doc.examples)


def test_every_error_and_schema_and_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    errors = pages["reference/errors.md"]
    assert [code for code in load_codes() if f"\n## {code}\n" not in errors] == []
    fields = pages["reference/json.md"]
    assert "| `plan.sizes_before.histogram[].from_bytes` | integer |" in fields
    assert "| `error.code` | string |" in fields
    assert render_schemas(REPOSITORY / "docs" / "schemas").count("\n## ") == len(
        list((REPOSITORY / "docs" / "schemas").glob("*.json"))
    )
    for name in dir(deltactl):
        assert name == "__version__" or f".{name}\n" in pages["reference/python.md"]


def test_links_out_of_the_documentation() -> None:
    known = {"a.md", "adr/README.md", "changes.md"}
    text = "[a](a.md#x) [d](adr/) [c](../CHANGELOG.md) [t](../tests/x.md) [w](https://w)\n"
    assert adapt("b.md", text, known) == (
        "[a](a.md#x) [d](adr/README.md) [c](changes.md) t [w](https://w)\n"
    )


def test_pictures_follow_the_switch_of_the_site() -> None:
    text = (
        '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="d.svg">\n'
        '  <img alt="x" src="l.svg">\n</picture>\n'
    )
    shown = "![x](l.svg#only-light)\n![x](d.svg#only-dark)\n"
    assert adapt("b.md", text, {"l.svg", "d.svg"}) == shown


def test_lists_for_python_markdown() -> None:
    text = ["text", "- one", "  more", "- two", "", "1. three", "", "   ```sh", "   - x", "   ```"]
    assert list(indent_lists([*text, "", "end", "  in"])) == [
        *("text", "", "- one", "    more", "- two", "", "1. three", "", "    ```sh", "    - x"),
        *("    ```", "", "end", "  in"),
    ]


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text("utf-8")
    settings = yaml.safe_load(re.sub(r"!!python\S+", "", text))
    assert settings["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css"} & settings.keys()
    assert "http" not in text


def test_a_built_site_is_checked(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<link rel="canonical" href="https://here/"><link rel="stylesheet" href="a.css">'
        '<script src="a.js"></script><a href="https://elsewhere/">x</a>'
    )
    assert check_site(tmp_path) == ["the index for the search is missing or not whole"]
    (tmp_path / "search").mkdir()
    index = tmp_path / "search" / "search_index.json"
    index.write_text(json.dumps({"docs": [{"location": ""}]}))
    assert check_site(tmp_path) == []
    for tag in (
        '<script src="https://cdn/a.js"></script>',
        '<link rel="stylesheet" href="//cdn/a.css">',
        '<img alt="" src="http://cdn/a.png">',
    ):
        (tmp_path / "index.html").write_text(tag)
        (wrong,) = check_site(tmp_path)
        assert wrong.startswith("index.html loads <")
