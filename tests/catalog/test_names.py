import pytest

from deltactl.catalog.kinds import KINDS
from deltactl.catalog.names import nearest_names, parse_name
from deltactl.errors import UsageError
from deltactl.storage.names import CATALOG_SCHEMES, is_table_name


@pytest.mark.parametrize(
    ("address", "place", "parts"),
    [
        ("uc://main.sales.orders", "", ("main", "sales", "orders")),
        ("UC://main.sales.orders", "", ("main", "sales", "orders")),
        ("glue://sales.orders", "", ("sales", "orders")),
        ("glue://123456789012/sales.orders", "123456789012", ("sales", "orders")),
        ("hive://host:9083/sales.orders", "host:9083", ("sales", "orders")),
        ("hive://*.*", "", ("*", "*")),
    ],
)
def test_names(address: str, place: str, parts: tuple[str, ...]) -> None:
    name = parse_name(address)
    assert (name.place, name.parts) == (place, parts)
    assert str(name) == address.replace("UC", "uc")


@pytest.mark.parametrize(
    "address",
    [
        "uc://main.sales",
        "uc://main.sales.orders.more",
        "uc://main..orders",
        "uc://",
        "s3://bucket/sales.orders",
        "sales.orders",
        "uc://here/main.sales.orders",
        "uc://main.sales.orders/",
        "uc://main.sales. orders",
        "uc://main.sales.ord?rs",
        "glue:///sales.orders",
        "glue://a/b/sales.orders",
        "hive://user:secret@host:9083/sales.orders",
        "uc://user:secret@main.sales.orders",
        "uc://main.sales.`orders`",
    ],
)
def test_what_is_no_name_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_name(address)
    assert "Write" in str(raised.value.hint)
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize("address", ["/data/uc", "s3://uc/x", "uc:/a.b.c", "uc", "a.b.c"])
def test_paths_are_no_names(address: str) -> None:
    assert not is_table_name(address)


def test_the_schemes_have_rows() -> None:
    assert set(KINDS) == CATALOG_SCHEMES
    assert is_table_name("uc://a.b.c")
    assert is_table_name("UC://a.b.c")


def test_patterns_match_parts_without_case() -> None:
    pattern = parse_name("uc://main.Sal*.ord*")
    assert pattern.is_pattern
    assert pattern.matches("main", "sales")
    assert pattern.matches("MAIN", "sales", "ORDERS")
    assert not pattern.matches("main", "sales", "items")
    assert not parse_name("uc://main.sales.orders").is_pattern


def test_similar_names() -> None:
    known = ["uc://m.s.orders", "uc://m.s.customers"]
    assert nearest_names("uc://m.s.ordrs", known) == ". Did you mean uc://m.s.orders?"
    assert nearest_names("uc://m.s.ordrs", []) == ""
