import pytest

from deltactl.cli.settings.sources import (
    EnvironmentSource,
    Origin,
    Setting,
    find_setting,
    parse_flag,
)
from deltactl.errors import UsageError


def test_the_first_source_that_has_a_value_applies() -> None:
    def find(environ: dict[str, str]) -> Setting | None:
        sources = [EnvironmentSource(environ), EnvironmentSource({"DELTACTL_TARGET_SIZE": "7GiB"})]
        return find_setting(sources, "target-size")

    first = Setting("DELTACTL_TARGET_SIZE", "1KiB", Origin.ENVIRONMENT)
    assert find({"DELTACTL_TARGET_SIZE": "1KiB"}) == first
    empty = find({"DELTACTL_TARGET_SIZE": ""})
    assert empty is not None and empty.text == "7GiB"
    assert find_setting([EnvironmentSource({})], "target-size") is None


@pytest.mark.parametrize(("text", "value"), [("1", True), (" Yes ", True), ("off", False)])
def test_flags_are_parsed_from_words(text: str, value: bool) -> None:
    assert parse_flag(text) is value
    with pytest.raises(UsageError, match="'maybe' is neither yes nor no"):
        parse_flag("maybe")
