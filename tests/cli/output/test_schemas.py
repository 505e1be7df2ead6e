"""The schemas of the output. Every run of the ``cli`` fixture is held against them as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.output.envelope import Envelope
from tests.cli.conftest import RunCli
from tests.support.json_schema import (
    command_schemas,
    load_schema,
    problems,
    row_schema,
    validate_output,
)


def test_every_command_has_a_schema_and_no_other() -> None:
    assert set(command_schemas()) == {
        spec.name for spec in COMMANDS if not spec.is_hidden and "output" not in spec.omits
    }
    for name in command_schemas():
        schema = load_schema(f"{name}.json")
        assert schema["properties"]["command"] == {"const": name}
        assert schema["$id"] == f"{name}.json"


def test_the_envelope_of_the_schema_is_that_of_the_program() -> None:
    envelope = Envelope(command=None, table=None, published_only=True).to_json()
    assert list(load_schema("envelope.json")["properties"]) == list(envelope)
    assert problems(envelope, "envelope.json") == []


ROW: dict[str, Any] = {
    "code": "X",
    "severity": "error",
    "version": 1,
    "file": None,
    "problem": "",
    "meaning": "",
    "repair": "",
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": "1"}, "$.version: '1' is not ['integer', 'null']"),
        ({"version": True}, "$.version: True is not ['integer', 'null']"),
        ({"version": -1}, "$.version: -1 is less than 0"),
        ({"more": 1}, "$: more is not in the schema"),
        ({"meaning": None}, "$.meaning: None is not string"),
    ],
)
def test_what_differs_from_the_schema_is_found(change: dict[str, Any], problem: str) -> None:
    assert problems(ROW, "check.json", row_schema("check")) == []
    assert problems({**ROW, **change}, "check.json", row_schema("check")) == [problem]
    without = {key: value for key, value in ROW.items() if key != "repair"}
    assert problems(without, "check.json", row_schema("check")) == ["$: repair is missing"]


@pytest.mark.parametrize(
    ("form", "out"),
    [
        ("json", '{"command": "check"}'),
        ("ndjson", '{"code": "X"}\n'),
        ("csv", "code,severity,colour\nX,error,red\n"),
    ],
)
def test_a_wrong_output_fails(form: str, out: str) -> None:
    with pytest.raises(AssertionError, match=f"check, {form}"):
        validate_output(form, "check", out)


@pytest.mark.parametrize("name", command_schemas())
def test_a_failure_has_the_envelope_of_the_schema(cli: RunCli, tmp_path: Path, name: str) -> None:
    out = cli(name, str(tmp_path / "nowhere"), "-o", "json").out
    envelope = json.loads(out)
    assert envelope["error"]["code"]
    assert problems(envelope, "envelope.json") == []
