"""The policy: texts of a file become values, with defaults written once in each form."""

import re
from dataclasses import fields
from datetime import timedelta

import pytest

from deltactl.cli.options.declared import declared_options
from deltactl.cli.settings.sources import Origin, Setting
from deltactl.errors import UsageError
from deltactl.operations.maintain.policy import ACTIONS, MaintainPolicy, to_actions
from tests.conftest import REPOSITORY


def read(**texts: str) -> MaintainPolicy:
    """The policy of some settings, of which each variable or line of a file is one."""
    options = {option.name: option for option in declared_options(MaintainPolicy)}
    settings = ((options[key.replace("_", "-")], text) for key, text in texts.items())
    values = {it.field: it.parse(Setting("here", text, Origin.FILE)) for it, text in settings}
    return MaintainPolicy(**values)


def test_each_field_is_a_setting_and_not_a_flag() -> None:
    options = declared_options(MaintainPolicy)
    assert [option.field for option in options] == [it.name for it in fields(MaintainPolicy)]
    assert all(it.option.is_settable and not it.option.has_flag for it in options)


def test_texts_become_the_values_of_a_policy() -> None:
    policy = read(
        actions="vacuum, optimize", target_size="128MiB", retain="30d", list_files="Never"
    )
    assert policy.actions == {"optimize", "vacuum"}
    assert (policy.target_bytes, policy.retain) == (128 << 20, timedelta(days=30))
    assert policy.list_files == "never"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("actions", "optimise"),
        ("skip_hot", "6"),
        ("retain", "9999999999d"),
        ("max_deleted_rows_ratio", "2"),
        ("max_deleted_rows_ratio", "-0.1"),
        ("max_deleted_rows_ratio", "nan"),
        ("max_deleted_rows_ratio", "few"),
        ("list_files", "sometimes"),
    ],
)
def test_an_error_names_its_source(key: str, text: str) -> None:
    with pytest.raises(UsageError, match="^here: "):
        read(**{key: text})


@pytest.mark.parametrize("sizes", [{"target_bytes": 0}, {"min_file_bytes": -1}])
def test_sizes_are_checked_before_a_run(sizes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=f"{[*sizes][0]} must "):
        MaintainPolicy(**sizes)  # type: ignore[arg-type]


def test_the_safe_order_vacuums_before_the_log_can_be_cleaned_up() -> None:
    assert ACTIONS == ("manifest", "vacuum", "optimize", "checkpoint", "log-cleanup")
    assert to_actions("") == frozenset()


def test_the_page_has_each_key_in_this_order() -> None:
    page = (REPOSITORY / "docs/maintain.md").read_text("utf-8")
    table = page.partition("| key | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", table, re.MULTILINE)
    options = {option.name: option for option in declared_options(MaintainPolicy)}
    assert [key for key, _ in rows] == list(options)
    for key, default in rows:
        if default.startswith("`"):
            assert default == f"`{options[key].default}`"
