"""Pseudonyms: equal texts equal, different spellings different, nothing readable."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deltactl.log.commits.info import RawFloat
from deltactl.operations.bundle.pseudonyms import Pseudonyms, find_words

UUID = "0a1b2c3d-0000-4000-8000-0123456789ab"


def make(**options: Any) -> Pseudonyms:
    return Pseudonyms(b"key", **options)


def test_equal_texts_are_equal_and_different_spellings_different() -> None:
    names = make()
    spellings = [
        "a b",
        "a%20b",
        "A b",
        "a b ",
        1,
        RawFloat("1.0"),
        RawFloat("1.00"),
        "é",
        "e\u0301",
    ]
    hidden = [names.hide(it) for it in spellings]
    assert hidden == [make().hide(it) for it in spellings]
    assert len(set(hidden)) == len(hidden)
    assert all(str(it).startswith("~") and len(str(it)) == 17 for it in hidden)
    assert (names.hide(None), names.hide("")) == (None, "")
    assert names.hide(1) == names.hide("1")  # a value and its text in a path


def test_another_bundle_has_other_pseudonyms() -> None:
    assert make().hide("a") != Pseudonyms(b"other").hide("a")


def test_a_text_that_is_no_unicode() -> None:
    assert make().hide("\ud800") != make().hide("\ud801")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (f"part-00000-{UUID}-c000.snappy.parquet", f"part-00000-{UUID}-c000.snappy.parquet"),
        (f"part-00000-{UUID}.c000.zstd.parquet", f"part-00000-{UUID}.c000.zstd.parquet"),
        (f"deletion_vector_{UUID}.bin", f"deletion_vector_{UUID}.bin"),
        ("_delta_log/x.json", "_delta_log/~.json"),
        (f"_delta_log/{7:020}.json", f"_delta_log/{7:020}.json"),
        (f"{7:020}.json", "~.json"),
        ("smith:1/a", "~/~"),
        ("abfss://smith@corp.dfs.core.windows.net/a", "abfss://~/~"),
        ("smith.parquet", "~.parquet"),
        ("day=1/smith", "~=~/~"),
        ("s3://bucket/a", "s3://~/~"),
        ("s3a://key:secret@bucket/a", "s3a://~/~"),
        ("file:/data/a.txt", "file:/~/~"),
        ("/data/smith", "/~/~"),
        (f"part-00000-{UUID}-smith.parquet", "~.parquet"),
    ],
)
def test_paths_keep_their_form_without_their_names(path: str, kept: str) -> None:
    found = make().path(path)
    assert re.sub(r"~[0-9a-f]{16}", "~", found) == kept


def test_names_may_be_kept() -> None:
    names = make(keep_names=True)
    assert names.name("day") == "day"
    assert names.name(7) == names.hide(7)  # no name


def test_names_in_paths_are_kept_if_they_are_columns() -> None:
    names = make(keep_names=True)
    names.learn_columns(["day", "cö l", 7])
    for column in ("day", "c%C3%B6%20l", "c%25C3%25B6%2520l"):
        assert names.path(f"{column}=smith/f").startswith(f"{column}=~")
    assert names.path("file:/data/day=1/f").startswith("file:/~")
    assert "/day=~" in names.path("file:/data/day=1/f")
    for path in ("smith=1/f", "https://host/smith?sig=1", "/data/smith=1", "day=a/smith=b"):
        assert "smith" not in names.path(path)
    kept_nowhere = make()
    kept_nowhere.learn_columns(["day"])
    assert "day" not in kept_nowhere.path("day=1")


def test_messages_keep_the_words_of_the_program_only() -> None:
    names = make(words=find_words("the checkpoint at version is broken"))
    log_file = "_delta_log/00000000000000000003.json"
    said = names.prose(f"the checkpoint at version 12 is broken: {log_file} has smith, 12 and é")
    assert said.startswith(f"the checkpoint at version 12 is broken: {log_file} ~")
    assert not any(word in said for word in ("smith", " 12 and", "é", "has"))
    assert names.hide("smith") in said
    assert names.prose(None) is None


def test_a_word_of_the_program_that_the_table_has_too_is_replaced() -> None:
    names = make(words=find_words("the checkpoint is broken"))
    names.hide("broken")
    assert names.prose("the checkpoint is broken").startswith("the checkpoint is ~")


def test_a_word_in_another_case_is_replaced_too() -> None:
    names = make(words=find_words("broken"))
    names.hide("Broken")
    assert names.prose("Broken").startswith("~")


@pytest.mark.parametrize("text", ["broken checkpoint", "checkpoint.broken", "Broken/x"])
def test_words_of_a_short_text_are_replaced_one_by_one(text: str) -> None:
    names = make(words=find_words("the checkpoint is broken"))
    names.hide(text)
    assert names.prose(f"the column '{text}' is").lower().count("broken") == 0
    assert names.prose("the is") == "the is"


def test_letters_that_only_look_like_a_word() -> None:
    assert make(words=find_words("checkpoint")).prose("chec\u212apoint").startswith("~")


def test_numbers_of_messages() -> None:
    names = make(words=find_words("version line"))
    for text in ("version 12, line 3", "version 12: line 3. version 4"):
        assert names.prose(text) == text
    assert "12-34" not in names.prose("version 12-34")
    assert "4111111111111111" not in names.prose("version 4111111111111111")
    assert "12345678" not in names.prose("12345678")


def test_bytes_that_cannot_be_parsed() -> None:
    names = make()
    said = names.hide_bytes(b"\xffsmith")["unparsed"]
    assert said["length"] == 6
    assert said["hash"] != names.hide_bytes(b"\xffsmitt")["unparsed"]["hash"]
