from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from deltactl.cli.output.page import Cell, Column, Page, Styled, Tone
from deltactl.cli.output.text import cell_width, safe_text


def rendered(fill: Callable[[Page], None], width: int = 80) -> list[str]:
    page = Page(width)
    fill(page)
    return list(page.plain_lines())


def test_columns_are_aligned_and_nothing_trails() -> None:
    columns = [Column("name"), Column("size", right=True), Column("note")]
    rows: list[tuple[Cell, ...]] = [("a", "1 B", ""), ("日本", "10 MiB", Styled("ok", Tone.GOOD))]
    assert rendered(lambda page: page.table(columns, rows)) == [
        "name    size  note",
        "a        1 B",
        "日本  10 MiB  ok",
    ]


def test_no_rows_is_a_header() -> None:
    assert rendered(lambda page: page.table([Column("a"), Column("b")], [])) == ["a  b"]


def test_fields_are_aligned() -> None:
    pairs: list[tuple[str, Cell]] = [("id", "x"), ("location", Styled("/a\nb", Tone.FAINT))]
    assert rendered(lambda page: page.fields(pairs)) == ["id        x", "location  /a\\nb"]


def test_only_elastic_columns_give_way() -> None:
    columns = [Column("version"), Column("who", elastic=True), Column("what", elastic=True)]
    row = ("123", "somebody@example.com", "a longer story than fits into the line")
    lines = rendered(lambda page: page.table(columns, [row]), width=40)
    assert lines == [
        "version  who             what",
        "123      somebody@ex...  a longer sto...",
    ]


def test_paths_keep_their_ends() -> None:
    columns = [Column("partition", elastic=True, is_path=True), Column("files", right=True)]
    rows = [(f"year=2024/month=01/country=de/day={day}", "1") for day in (16, 17)]
    assert rendered(lambda page: page.table(columns, rows), width=28) == [
        "partition              files",
        "year=2...ry=de/day=16      1",
        "year=2...ry=de/day=17      1",
    ]


def test_what_can_be_spared_is_left_out_where_there_is_no_room() -> None:
    columns = [Column("a"), Column("b", spare=1), Column("c", elastic=True), Column("d", spare=2)]
    row = ("1" * 8, "2" * 8, "3" * 12, "4" * 8)

    def line(width: int) -> str:
        return rendered(lambda page: page.table(columns, [row]), width)[1]

    assert line(38) == "11111111  22222222  33333...  44444444"
    assert line(37) == "11111111  22222222  333333333333"
    assert line(27) == "11111111  333333333333"
    assert line(9) == "11111111  33333..."


@given(
    st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=5),
    st.integers(1, 120),
)
def test_a_table_with_room_to_give_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = [Column("abc", elastic=True), Column("de", elastic=True), Column("f", elastic=True)]
    for line in rendered(lambda page: page.table(columns, rows), width):
        assert cell_width(line) <= max(width, 3 * 8 + 2 * 2)
        assert safe_text(line) == line
