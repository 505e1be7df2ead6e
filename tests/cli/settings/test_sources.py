import pytest

from deltactl.cli.settings.sources import (
    EnvironmentSource,
    Origin,
    Setting,
    find_setting,
    parse_flag,
    variable_name,
)
from deltactl.errors import UsageError


def find(environ: dict[str, str]) -> Setting | None:
    return find_setting([EnvironmentSource(environ), EnvironmentSource(OTHER)], "target-size")


OTHER = {"DELTACTL_TARGET_SIZE": "7GiB"}


def test_the_first_source_that_has_a_value_applies() -> None:
    found = find({"DELTACTL_TARGET_SIZE": "1KiB"})
    assert found == Setting("DELTACTL_TARGET_SIZE", "1KiB", Origin.ENVIRONMENT)
    empty = find({"DELTACTL_TARGET_SIZE": ""})
    assert empty is not None and empty.text == "7GiB"
    assert find_setting([EnvironmentSource({})], "target-size") is None


def test_a_variable_has_the_prefix_of_the_program() -> None:
    assert variable_name("output") == "DELTACTL_OUTPUT"


@pytest.mark.parametrize(("text", "value"), [("1", True), (" Yes ", True), ("off", False)])
def test_flags_are_parsed_from_words(text: str, value: bool) -> None:
    assert parse_flag(text) is value


def test_a_flag_that_is_neither() -> None:
    with pytest.raises(UsageError, match="'maybe' is neither yes nor no"):
        parse_flag("maybe")
