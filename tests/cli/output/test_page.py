from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.cli.output.page import Page
from deltactl.cli.output.sections import Column, Fact, Kind, Listed, Section, Styled, Table, Tone
from deltactl.cli.output.text import cell_width, safe_text


def shown(*sections: Section, width: int = 80, is_whole: bool = False) -> list[str]:
    page = Page(width, is_whole)
    page.show(sections)
    return list(page.plain_lines())


def table(columns: Sequence[Column], *rows: Sequence[Any], width: int = 80) -> list[str]:
    return shown(Section(table=Table(columns, rows)), width=width)


def test_columns_are_aligned_and_nothing_trails() -> None:
    columns = [Column("name"), Column("size", Kind.BYTES), Column("note")]
    assert table(columns, ("a", 1, ""), ("日本", 10 << 20, Styled("ok", Tone.GOOD))) == [
        "name    size  note",
        "a        1 B",
        "日本  10 MiB  ok",
    ]


def test_tables_without_rows_and_columns_without_values_are_left_out() -> None:
    columns = [Column("a"), Column("b"), Column("c")]
    assert table(columns) == []
    assert table(columns, ("1", "", "2"), ("3", None, "4")) == ["a  c", "1  2", "3  4"]


def test_what_is_below_a_title_is_indented_and_facts_are_aligned() -> None:
    facts: list[Fact] = [("id", "x"), ("location", Styled("/a\nb", Tone.FAINT))]
    sections = [Section(("Done", " today"), facts=facts), Section(facts=facts, notes=["bye"])]
    assert shown(*sections) == [
        "Done today", "  id        x", "  location  /a\\nb", "",
        "id        x", "location  /a\\nb", "bye",
    ]  # fmt: skip


def test_lines_are_wrapped_at_words_and_commands_stay_whole() -> None:
    text = "one two three, then run `deltactl check t --files data` twice"
    section = Section("Title", facts=[("label", text)])
    assert shown(section, width=24) == [
        "Title",
        "  label  one two three, then",
        "         run",
        "         `deltactl check t --files data`",
        "         twice",
    ]
    assert shown(section, width=24, is_whole=True) == ["Title", f"  label  {text}"]
    assert shown(Section(code="deltactl " + "x " * 50), width=20) == ["deltactl " + "x " * 49 + "x"]


def test_pieces_keep_their_tones_where_a_line_is_wrapped() -> None:
    page = Page(20)
    page.line((Styled("twelve files", Tone.GOOD), ", 3 left for ", Styled("later", Tone.BAD)))
    assert [[(p.text, p.tone) for p in line[1:]] for line in page.lines] == [
        [("twelve files", Tone.GOOD), (", 3 left", Tone.PLAIN)],
        [("for ", Tone.PLAIN), ("later", Tone.BAD)],
    ]


@pytest.mark.parametrize("as_arrow", [False, True])
def test_a_terminal_says_how_to_list_the_rest_and_a_pipe_has_all(as_arrow: bool) -> None:
    rows: Any = [{"n": n, "bytes": n % 5} for n in range(9)]
    rows = pa.Table.from_pylist(rows) if as_arrow else rows
    columns = [Column("n", Kind.NUMBER), Column("size", Kind.BYTES, "bytes")]
    first = Section(table=Table(columns, rows, most=2, more="--all lists all"))
    assert shown(first) == ["n  size", "0   0 B", "1   1 B", "and 7 more (--all lists all)"]
    largest = Section(table=Table(columns, rows, most=1, largest="bytes"))
    assert shown(largest)[1] == "4   4 B"
    assert len(shown(first, is_whole=True)) == 10


def test_a_list_in_a_line_is_cut_for_a_terminal_only() -> None:
    section = Section(facts=[("versions", Listed(["3", "2", "1"], "at least ", most=2))])
    assert shown(section) == ["versions  at least 3, 2, and 1 more (-o json lists all)"]
    assert shown(section, is_whole=True) == ["versions  at least 3, 2, 1"]


def test_a_detail_has_lines_of_its_own_on_a_terminal_and_a_column_in_a_pipe() -> None:
    columns = [Column("rank", Kind.NUMBER), Column("action"), Column("reason", Kind.DETAIL)]
    rows = [(1, "vacuum", "two files are past the retention"), (2, "optimize", "")]
    section = Section(table=Table(columns, rows))
    assert shown(section, width=30) == [
        "rank  action",
        "   1  vacuum",
        "    reason: two files are past",
        "            the retention",
        "   2  optimize",
    ]
    assert shown(section, width=30, is_whole=True)[1] == (
        "   1  vacuum    two files are past the retention"
    )


def test_bars_share_the_room_and_one_above_zero_is_seen() -> None:
    columns = [Column("n", Kind.NUMBER), Column("", Kind.BAR), Column("m"), Column("", Kind.BAR)]
    assert table(columns, (1, 1.0, "a", 0.001), (2, 0.5, "b", None), width=30) == [
        "n              m",
        "1  ##########  a  #",
        "2  #####       b",
    ]


def test_changes_are_short_where_there_is_little_room() -> None:
    columns = [Column("size", Kind.BYTES_CHANGED), Column("rows", Kind.COUNTS_CHANGED)]
    row = ([("+", 1536), ("-", 0)], [("+", 12_345), ("-", None)])
    assert table(columns, row)[1] == "+1.5K  +12K -?"
    assert table(columns, row, width=120)[1] == "+1.5 KiB  +12,345 -?"


def test_only_text_is_cut() -> None:
    columns = [Column("version"), Column("who", Kind.TEXT), Column("what", Kind.TEXT)]
    row = ("123", "somebody@example.com", "a longer story than fits into the line")
    assert table(columns, row, width=40) == [
        "version  who             what",
        "123      somebody@ex...  a longer sto...",
    ]


def test_paths_keep_their_ends() -> None:
    columns = [Column("partition", Kind.PATH), Column("files", Kind.NUMBER)]
    rows = [(f"year=2024/month=01/country=de/day={day}", 1) for day in (16, 17)]
    assert table(columns, *rows, width=28) == [
        "partition              files",
        "year=2...ry=de/day=16      1",
        "year=2...ry=de/day=17      1",
    ]


def test_what_can_be_spared_is_left_out_where_there_is_no_room() -> None:
    columns = [
        Column("a"), Column("b", spare=1), Column("c", Kind.TEXT), Column("d", spare=2),
        Column("e", wide=True),
    ]  # fmt: skip
    row = ("1" * 8, "2" * 8, "3" * 12, "4" * 8, "5")

    def line(width: int) -> str:
        return table(columns, row, width=width)[1]

    assert line(110) == "11111111  22222222  333333333333  44444444  5"
    assert line(38) == "11111111  22222222  33333...  44444444"
    assert line(37) == "11111111  22222222  333333333333"
    assert line(27) == "11111111  333333333333"
    assert line(9) == "11111111  33333..."


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=5), st.integers(1, 120))
def test_a_table_with_room_to_give_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = [Column("abc", Kind.TEXT), Column("de", Kind.TEXT), Column("f", Kind.TEXT)]
    for line in table(columns, *rows, width=width):
        assert cell_width(line) <= max(width, 3 * 8 + 2 * 2)
        assert safe_text(line) == line


def test_an_age_is_as_narrow_as_its_column_allows() -> None:
    ages = (0, 5_000, 59 * 60_000, -120_000)
    shown = [Column("age", Kind.AGE).show(age).text for age in ages]
    assert shown == ["now", "5 s", "59 min", "in 2 min"]
