"""Parse log files line by line with the json module.

This is slower than Arrow, but works for any JSON, and errors have line numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import MALFORMED, CorruptLogError
from deltactl.log.commits.columns import ACTIONS, FILE_ACTIONS, MEMBERS, NON_FILE_ACTIONS
from deltactl.log.commits.contents import CommitBytes, SharedLineError, not_json, unreadable
from deltactl.protocol.actions import Metadata, parse_metadata, to_flag, to_integer, to_text
from deltactl.protocol.arrow_schemas import STRING_MAP

_MEMBERS = {**MEMBERS, "partitionValues": STRING_MAP, "tags": STRING_MAP}
_FILE_TYPE = pa.struct(list(_MEMBERS.items()))

_PARTITION_VALUES: Final = re.compile(
    rb'"partitionValues"\s*:\s*(\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})', re.DOTALL
)
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_PAIR: Final = rf'({_TEXT})\s*:\s*(?:{_TEXT}|[^,"}}]+)'


def read_lines(files: Sequence[CommitBytes]) -> pa.Table:
    """Return all lines as rows: file actions as structs, other actions as JSON strings.

    Raises:
        CorruptLogError: a line is not an action; the message has the file and the line.
    """
    parts: dict[str, list[pa.Array]] = {name: [] for name in (*FILE_ACTIONS, *NON_FILE_ACTIONS)}
    for file in files:
        rows: dict[str, list[Any]] = {name: [] for name in parts}
        for number, line in enumerate(file.data.splitlines(), 1):
            if not line.strip():
                continue
            action = _parse_line(file.name, number, line)
            _ensure_one_action(file.name, number, action)
            for name, values in rows.items():
                values.append(_value(file.name, number, name, action.get(name)))
        for name, values in rows.items():
            kind = _FILE_TYPE if name in FILE_ACTIONS else pa.string()
            try:
                parts[name].append(pa.array(values, kind))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise CorruptLogError(f"{file.name}: malformed {name} action ({error})") from error
    return pa.table({name: pa.chunked_array(arrays) for name, arrays in parts.items()})


def _parse_line(name: str, number: int, line: bytes) -> dict[str, Any]:
    """Parse a line of a log file as a JSON object."""
    try:
        action = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise not_json(name, number, line, error) from error
    if not isinstance(action, dict):
        raise unreadable(name, f", line {number}: not a JSON object")
    return action


def list_actions(members: Iterable[tuple[str, Any]]) -> list[str]:
    """Return the names of all actions in a line that are not null."""
    return [name for name, value in members if value is not None and name in ACTIONS]


def _ensure_one_action(file_name: str, number: int, line: dict[str, Any]) -> None:
    """Raise an error for a line with two actions: Delta on Spark uses one, others several."""
    if len(actions := list_actions(line.items())) > 1:
        raise SharedLineError(
            f"{file_name}: line {number} has several actions: {', '.join(actions)}",
            hint="Restore the file from a backup. A line must have only one action: some readers "
            "would use only one of these actions, others would use more.",
        )


def _parse_metadata(name: str, number: int, node: dict[str, Any]) -> Metadata:
    try:
        return parse_metadata(node)
    except CorruptLogError as error:
        raise CorruptLogError(f"{name}, line {number}: {error.message}") from error
    except MALFORMED as error:
        raise CorruptLogError(f"{name}, line {number}: malformed action ({error!r})") from error


def _value(file_name: str, number: int, name: str, node: Any) -> Any:
    if node is None:
        return None
    if not isinstance(node, dict):
        raise CorruptLogError(f"{file_name}, line {number}: {name} is not an object")
    if name not in FILE_ACTIONS:
        return json.dumps(node)
    try:
        return {key: _coerce(kind, node.get(key)) for key, kind in _MEMBERS.items()}
    except MALFORMED as error:
        raise CorruptLogError(
            f"{file_name}, line {number}: malformed {name} action ({error})"
        ) from error


def _coerce(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if kind == STRING_MAP:
        return [(key, None if it is None else to_text(it)) for key, it in value.items()]
    if pa.types.is_struct(kind):
        return {f.name: _coerce(f.type, value.get(f.name)) for f in kind}
    if pa.types.is_boolean(kind):
        return to_flag(value)
    return to_integer(value) if pa.types.is_integer(kind) else to_text(value)


# Parsed file actions have a column for every key that any of them has. Only the text shows which
# keys one action lacks, and which additional keys it has.
def list_key_sets(data: bytes) -> frozenset[frozenset[str]]:
    """Return the distinct sets of partition keys (physical names) of the file actions in a text."""
    texts = {text.decode("utf-8", "replace") for text in set(_PARTITION_VALUES.findall(data))}
    # Without the values, only a few distinct texts are left to parse.
    shapes = pc.unique(
        pc.replace_substring_regex(
            pa.array(list(texts), pa.string()), pattern=_PAIR, replacement=r"\1:0"
        )
    )
    found = set()
    for shape in shapes.to_pylist():
        try:
            found.add(frozenset(json.loads(shape)))
        except ValueError:
            continue
    return frozenset(found)


def keys_of_nodes(files: Sequence[CommitBytes], nodes: Sequence[dict[str, Any]]) -> frozenset[str]:
    """Return the partition keys of all ``metaData`` actions among the non-file actions.

    Raises:
        CorruptLogError: an action is malformed; the message has the file and the line.
    """
    try:
        found = [node["metaData"] for node in nodes if isinstance(node.get("metaData"), dict)]
        return frozenset(key for it in found for key in parse_metadata(it).partition_keys)
    except (CorruptLogError, *MALFORMED):
        find_partition_keys(files)  # the error of this function names the line
        raise


def find_partition_keys(files: Sequence[CommitBytes]) -> frozenset[str]:
    """Return the partition keys of all ``metaData`` actions; read the files line by line.

    Raises:
        CorruptLogError: an action is malformed; the message has the file and the line.
    """
    keys: set[str] = set()
    for file in files:
        if b'"metaData"' not in file.data:
            continue
        for number, line in enumerate(file.data.splitlines(), 1):
            if b'"metaData"' in line:
                action = _parse_line(file.name, number, line)
                if isinstance(node := action.get("metaData"), dict):
                    metadata = _parse_metadata(file.name, number, node)
                    keys |= set(metadata.partition_keys)
    return frozenset(keys)
