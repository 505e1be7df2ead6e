"""The README has the figures of the benchmarks; the changelog has its form."""

import re

import deltactl
from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text("utf-8")
CHANGELOG = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")


def test_it_starts_with_what_it_is() -> None:
    first = README.split("\n## ")[0].splitlines()[1:]
    assert 4 <= sum(bool(line) for line in first) <= 6


def test_every_picture_has_a_text_and_both_themes() -> None:
    shown = re.findall(
        r'<picture>\n  <source media="\(prefers-color-scheme: dark\)" srcset="(.*)-dark.svg">\n'
        r'  <img alt="([^"]{20,})" src="(.*)-light.svg">\n</picture>\n',
        README,
    )
    assert len(shown) == README.count("<picture>") >= 3
    for dark, _, light in shown:
        assert dark == light
        assert (REPOSITORY / f"{dark}-dark.svg").exists()


def read_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_measured_figures_are_in_the_benchmarks() -> None:
    """A row of the README is a row there, or has the ends of the figures of several, rounded."""
    table = README.split("| case | processor time | memory |\n")[1].split("\n\n")[0]
    page = (REPOSITORY / "benchmarks" / "README.md").read_text("utf-8")
    lines = [cells for line in page.splitlines() if len(cells := read_cells(line)) == 5]
    measured = {cells[0]: (cells[2], cells[4]) for cells in lines}
    rows = [read_cells(line) for line in table.splitlines()[1:]]
    assert len(rows) >= 4
    for case, *figures in rows:
        if case in measured:
            assert tuple(figures) == measured[case]
            continue
        for column, figure in enumerate(figures):
            known = [float(it[column]) for it in measured.values() if is_number(it[column])]
            ends = figure.split(" to ")
            digits = len(ends[0].partition(".")[2])
            assert set(ends) <= {f"{number:.{digits}f}" for number in known}, case


def is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def test_the_changelog_has_unreleased_changes_and_this_version() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "Unreleased"
    for heading in headings[1:]:
        assert re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", heading)
    assert headings[1].startswith(f"{deltactl.__version__} - ")


def test_a_line_of_a_release_is_one_sentence() -> None:
    released = CHANGELOG.split("\n## ")[2:]
    lines = [line for part in released for line in part.splitlines() if line.startswith("- ")]
    assert len(lines) > 40
    assert [line for line in lines if not line.endswith(".") or ". " in line] == []
