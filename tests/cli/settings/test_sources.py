from __future__ import annotations

import pytest

from deltactl.cli.settings.sources import (
    EnvironmentSource,
    Origin,
    Resolved,
    parse_flag,
    resolve_setting,
    variable_name,
)
from deltactl.errors import UsageError
from deltactl.units import parse_size


def resolve(flag: int | None, environ: dict[str, str]) -> Resolved[int]:
    sources = [EnvironmentSource(environ)]
    return resolve_setting("target-size", flag, parse=parse_size, default=7, sources=sources)


def test_flag_beats_environment_beats_default() -> None:
    environ = {"DELTACTL_TARGET_SIZE": "1KiB"}
    assert resolve(5, environ) == Resolved(5, Origin.FLAG, "--target-size")
    assert resolve(None, environ) == Resolved(1024, Origin.ENVIRONMENT, "DELTACTL_TARGET_SIZE")
    assert resolve(None, {}) == Resolved(7, Origin.DEFAULT, "default")
    assert resolve(None, {"DELTACTL_TARGET_SIZE": ""}).origin is Origin.DEFAULT


def test_an_error_names_the_variable() -> None:
    with pytest.raises(UsageError, match=r"^DELTACTL_TARGET_SIZE: size '12' has no unit$"):
        resolve(None, {"DELTACTL_TARGET_SIZE": "12"})


def test_a_variable_has_the_prefix_of_the_program() -> None:
    assert variable_name("output") == "DELTACTL_OUTPUT"


@pytest.mark.parametrize(("text", "value"), [("1", True), (" Yes ", True), ("off", False)])
def test_flags_are_parsed_from_words(text: str, value: bool) -> None:
    assert parse_flag(text) is value


def test_a_flag_that_is_neither() -> None:
    with pytest.raises(UsageError, match="'maybe' is neither yes nor no"):
        parse_flag("maybe")
