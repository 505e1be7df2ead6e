"""Errors about a log, in a run that reads several tables."""

import pytest

from deltactl.errors import ConflictError, CorruptLogError
from deltactl.log.naming import naming


def test_the_innermost_table_is_named() -> None:
    with (
        pytest.raises(CorruptLogError) as caught,
        naming("file:///outer", hint="Or copy it."),
        naming("file:///in"),
    ):
        raise CorruptLogError("1.json is empty", hint="Run `deltactl check TABLE`.")
    error = caught.value
    assert (error.table, str(error)) == ("file:///in", "in file:///in: 1.json is empty")
    assert error.hint == "Run `deltactl check file:///in`."


def test_commands_in_hints_of_other_errors_name_the_table() -> None:
    hint = "Run `deltactl describe-history TABLE`, then rerun."
    with pytest.raises(ConflictError, match="^unknown$") as caught, naming("/x", hint="Copy it."):
        raise ConflictError("unknown", hint=hint)
    assert caught.value.hint == "Run `deltactl describe-history /x`, then rerun."
