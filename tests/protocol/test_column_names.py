"""Names of columns: with dots, spaces, backticks and commas."""

from collections.abc import Sequence

import pytest

from deltactl.protocol.column_names import find_column, format_column, list_columns, parse_column
from deltactl.protocol.schema import Field, PrimitiveType, StructType

LONG = PrimitiveType("long")
ODD = ("a b", "id.num", "a`b", "a,b", "1", "größe", ".", "a.b.c.d.e")
SCHEMA = StructType(
    (
        Field("id", StructType((Field("num", LONG), Field("n.m", LONG)))),
        *(Field(name, LONG) for name in ODD),
    )
)


@pytest.mark.parametrize("name", ODD)
def test_every_column_is_found_by_the_name_that_is_shown(name: str) -> None:
    shown = format_column([name])
    assert find_column(SCHEMA, shown) == [SCHEMA.find(name)]
    assert list_columns(f"id , {shown},x") == ("id", shown, "x")


@pytest.mark.parametrize("path", [("id", "num"), ("id", "n.m")])
def test_members_are_found_by_the_name_that_is_shown(path: tuple[str, ...]) -> None:
    # id.num without backticks is the column of that name.
    text = "`id`.num" if path == ("id", "num") else format_column(path)
    assert [field.name for field in find_column(SCHEMA, text) or ()] == list(path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id.num", ["id.num"]),
        ("ID.NUM", ["id.num"]),
        ("`id`.`num`", ["id", "num"]),
        ("`id.num`", ["id.num"]),
        ("id.`n.m`", ["id", "n.m"]),
        (" a b ", ["a b"]),
        ("a,b", ["a,b"]),
        ("id.n.m", []),
        ("a`b", []),
        ("`id", ["id"]),
        ("", []),
    ],
)
def test_a_top_level_column_comes_before_a_path(text: str, names: Sequence[str]) -> None:
    assert [field.name for field in find_column(SCHEMA, text) or ()] == names


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("a, b.c,,", ("a", "b.c")),
        ("`a,b`,c", ("`a,b`", "c")),
        ("`a``,b`.c ,d", ("`a``,b`.c", "d")),
        ("`a,b", ("`a,b",)),
        (["a,b", " c "], ("a,b", "c")),
        (" ", ()),
    ],
)
def test_columns_of_a_text_and_of_a_list(columns: str | list[str], names: Sequence[str]) -> None:
    assert list_columns(columns) == tuple(names)


def test_spaces_in_a_path() -> None:
    assert parse_column(" Super Name . c.` d`") == ("Super Name", "c", " d")
