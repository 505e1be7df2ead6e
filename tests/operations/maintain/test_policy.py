"""The policy: texts of a file become values, with defaults written once in each form."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from deltactl.errors import UsageError
from deltactl.operations.maintain.policy import (
    ACTIONS,
    KEYS,
    OLD_KEYS,
    MaintainPolicy,
    to_actions,
)
from tests.conftest import REPOSITORY


def test_the_texts_of_the_defaults_are_the_defaults() -> None:
    texts = {key: about.default for key, about in KEYS.items()}
    assert MaintainPolicy.of(texts) == MaintainPolicy()


def test_each_field_has_a_key() -> None:
    assert {about.field for about in KEYS.values()} == {it.name for it in fields(MaintainPolicy)}


def test_texts_become_the_values_of_a_policy() -> None:
    policy = MaintainPolicy.of(
        {
            "actions": "vacuum, optimize",
            "target-size": "128MiB",
            "retain": "30d",
            "list-files": "Never",
        }
    )
    assert policy.actions == {"optimize", "vacuum"}
    assert (policy.target_bytes, policy.retain_ms) == (128 << 20, 30 * 86_400_000)
    assert policy.list_files == "never"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("actions", "optimise"),
        ("skip-hot", "6"),
        ("max-deleted-rows-ratio", "2"),
        ("max-deleted-rows-ratio", "nan"),
        ("list-files", "sometimes"),
    ],
)
def test_an_error_names_its_source(key: str, text: str) -> None:
    with pytest.raises(UsageError, match="^here: "):
        MaintainPolicy.resolve(lambda name: ("here", text) if name == key else None)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match="colour"):
        MaintainPolicy.of({"colour": "red"})


def test_an_old_key_is_refused_with_what_replaces_it() -> None:
    assert not OLD_KEYS.keys() & KEYS.keys()
    for key, hint in OLD_KEYS.items():
        with pytest.raises(UsageError) as refused:
            MaintainPolicy.of({key: "1"})
        assert refused.value.hint == hint


def test_the_safe_order_deletes_last() -> None:
    assert ACTIONS == ("optimize", "checkpoint", "manifest", "log-cleanup", "vacuum")
    assert to_actions("") == frozenset()


def test_the_page_has_each_key_in_this_order() -> None:
    page = (REPOSITORY / "docs/maintain.md").read_text("utf-8")
    table = page.partition("| key | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", table, re.MULTILINE)
    assert [key for key, _ in rows] == list(KEYS)
    for key, default in rows:
        if default.startswith("`"):
            assert default == f"`{KEYS[key].default}`"
