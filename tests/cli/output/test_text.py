import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.cli.output.text import cell_width, fit_middle, fit_width, pad_width, safe_text

any_text = st.text(st.characters(codec=None))  # lone surrogates included


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("part-0001.parquet", "part-0001.parquet"),
        ("größe=日本 👩\u200d💻", "größe=日本 👩\u200d💻"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("evil\u202egnp.exe\u2066", "evil\\u202egnp.exe\\u2066"),
        ("a\u2028b\ufeff\U000e0041", "a\\u2028b\\ufeff\\U000e0041"),
        ("\udc80", "\\udc80"),
        ("\ufffe\uffff", "\\ufffe\\uffff"),  # not allowed in XML
        ("C:\\new", "C:\\new"),
    ],
)
def test_characters_that_control_a_terminal_are_escaped(text: str, safe: str) -> None:
    assert safe_text(text) == safe


@given(any_text)
def test_nothing_active_is_left(text: str) -> None:
    safe = safe_text(text)
    assert not {unicodedata.category(c) for c in safe} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {c for c in safe if unicodedata.bidirectional(c) in _BIDI_CONTROLS}
    safe.encode("utf-8")


_BIDI_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(any_text)
def test_escaping_again_changes_nothing(text: str) -> None:
    assert safe_text(safe_text(text)) == safe_text(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_visible_text_is_left_alone(text: str) -> None:
    assert safe_text(text) == text


@given(any_text, st.integers(0, 30))
def test_fitted_text_has_the_width(text: str, width: int) -> None:
    fitted = fit_width(safe_text(text), width)
    assert cell_width(fitted) <= width
    assert cell_width(pad_width(fitted, width)) == width
    assert cell_width(pad_width(fitted, width, right=True)) == width


@given(any_text, st.integers(0, 30))
def test_text_cut_in_the_middle_has_the_width(text: str, width: int) -> None:
    assert cell_width(fit_middle(safe_text(text), width)) <= width


def test_a_cut_in_the_middle_keeps_the_end() -> None:
    assert fit_middle("year=2024/month=01/day=17", 18) == "year=...=01/day=17"
    assert fit_middle("日本語日本語", 9) == "日...本語"
    assert fit_middle("lake/sales/big-orders-table", 22) == "la.../big-orders-table"
    assert fit_middle("lake/sales/big-orders-table", 13) == "...ders-table"
    assert fit_middle("abc", 3) == "abc"
    assert fit_middle("abcdef", 3) == "..."


def test_cut_text_says_so() -> None:
    assert fit_width("abcdefgh", 6) == "abc..."
    assert fit_width("日本語日本語", 8) == "日本..."
    assert fit_width("abc", 3) == "abc"
