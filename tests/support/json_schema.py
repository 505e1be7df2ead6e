"""Validates JSON against the schemas of docs/schemas: the few keywords that they use, strictly."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tests.conftest import REPOSITORY

SCHEMAS = REPOSITORY / "docs" / "schemas"
Schema = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
RUNS_HEADER = ",".join(
    ("table", "status", "exit_code", "version_before", "version_after", "error_code", "message")
)
_SAID_ONLY = {"$schema", "$id", "$defs", "title", "description"}


@cache
def load_schema(name: str) -> Schema:
    schema: Schema = json.loads((SCHEMAS / name).read_text("utf-8"))
    return schema


def command_schemas() -> list[str]:
    names = sorted(path.stem for path in SCHEMAS.glob("*.json"))
    return [name for name in names if name not in ("envelope", "runs", "settings")]


def row_schema(command: str) -> Schema | None:
    """The schema of a line of ndjson; None where a line is an envelope."""
    row: Schema | None = load_schema(f"{command}.json").get("$defs", {}).get("row")
    return row


def problems(value: Any, file: str, schema: Schema | None = None) -> list[str]:
    """What is wrong with a value, by its place in it; nothing if it is valid."""
    return list(_check(value, load_schema(file) if schema is None else schema, file, "$"))


def _check(value: Any, schema: Schema, file: str, at: str) -> Iterator[str]:
    for keyword, wanted in schema.items():
        if keyword in _SAID_ONLY or keyword == "required":
            continue
        check = _CHECKS.get(keyword)
        assert check is not None, f"{file}: the keyword {keyword} is not checked by anybody"
        yield from check(value, wanted, schema, file, at)


def _type(value: Any, wanted: Any, _schema: Schema, _file: str, at: str) -> Iterator[str]:
    names = [wanted] if isinstance(wanted, str) else wanted
    kinds = tuple(kind for name in names for kind in _TYPES[name])
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        yield f"{at}: {value!r} is not {wanted}"


def _properties(value: Any, wanted: Any, schema: Schema, file: str, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at}: {name} is missing"
    for name, member in value.items():
        if name in wanted:
            yield from _check(member, wanted[name], file, f"{at}.{name}")


def _additional(value: Any, wanted: Any, schema: Schema, file: str, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name, member in value.items():
        if name in schema.get("properties", {}):
            continue
        if wanted is False:
            yield f"{at}: {name} is not in the schema"
        else:
            yield from _check(member, wanted, file, f"{at}.{name}")


def _items(value: Any, wanted: Any, _schema: Schema, file: str, at: str) -> Iterator[str]:
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _check(item, wanted, file, f"{at}[{position}]")


def _any_of(value: Any, wanted: Any, _schema: Schema, file: str, at: str) -> Iterator[str]:
    tries = [list(_check(value, choice, file, at)) for choice in wanted]
    if all(tries):
        yield min(tries, key=len)[0]


def _all_of(value: Any, wanted: Any, _schema: Schema, file: str, at: str) -> Iterator[str]:
    for part in wanted:
        yield from _check(value, part, file, at)


def _ref(value: Any, wanted: str, _schema: Schema, file: str, at: str) -> Iterator[str]:
    other, _, place = wanted.partition("#/$defs/")
    target = load_schema(other or file)
    yield from _check(value, target["$defs"][place] if place else target, other or file, at)


def _fails(is_wrong: bool, message: str) -> Iterator[str]:
    if is_wrong:
        yield message


_CHECKS: dict[str, Callable[[Any, Any, Schema, str, str], Iterator[str]]] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "anyOf": _any_of,
    "allOf": _all_of,
    "$ref": _ref,
    "const": lambda v, w, s, f, at: _fails(
        v != w or isinstance(v, bool) != isinstance(w, bool), f"{at}: {v!r} is not {w!r}"
    ),
    "enum": lambda v, w, s, f, at: _fails(v not in w, f"{at}: {v!r} is none of {w}"),
    "pattern": lambda v, w, s, f, at: _fails(
        isinstance(v, str) and not re.search(w, v), f"{at}: {v!r} does not match {w}"
    ),
    "minimum": lambda v, w, s, f, at: _fails(
        isinstance(v, int) and v < w, f"{at}: {v!r} is less than {w}"
    ),
    "maximum": lambda v, w, s, f, at: _fails(
        isinstance(v, int) and v > w, f"{at}: {v!r} is more than {w}"
    ),
    "minItems": lambda v, w, s, f, at: _fails(len(v) < w, f"{at}: fewer than {w} items"),
    "maxItems": lambda v, w, s, f, at: _fails(len(v) > w, f"{at}: more than {w} items"),
}


def _columns(row: Schema, file: str) -> set[str]:
    """Every column that a row may have, in one of its forms or another."""
    if "$ref" in row:
        row = load_schema(file)["$defs"][row["$ref"].rpartition("/")[2]]
    forms = row.get("anyOf", [])
    return set(row.get("properties", {})).union(*(_columns(form, file) for form in forms))


def validate_output(form: str | None, command: str | None, out: str) -> None:
    """Check whatever a command printed against its schema: envelope, lines or header."""
    if form not in ("json", "ndjson", "csv") or not out:
        return
    found: list[str] = []
    if form == "json" and "runs" in (document := json.loads(out)):
        found = problems(document, "runs.json")
        for run in document["runs"]:
            found += problems(run, f"{command}.json")
    elif form == "csv" and out.startswith(RUNS_HEADER):
        pass
    elif form == "json":
        envelope = json.loads(out)
        known = envelope["command"] in command_schemas()
        found = problems(envelope, f"{envelope['command'] if known else 'envelope'}.json")
    elif command is not None and command in command_schemas() and (row := row_schema(command)):
        if form == "csv":
            header = next(csv.reader([out.split("\n", maxsplit=1)[0]]))
            columns = _columns(row, f"{command}.json")
            # With --columns of describe-history, a column may be any key of a commit.
            is_chosen = "engineInfo" in columns and "engineInfo" not in header
            found = [f"column {it}" for it in header if it not in columns and not is_chosen]
        else:
            for line in map(json.loads, out.splitlines()):
                is_envelope = "schema_version" in line
                found += problems(line, f"{command}.json", None if is_envelope else row)
    if found:
        raise AssertionError(f"{command}, {form}, not as the schema says: {found}")
