"""Cut the values out of ``add`` lines that are written alike, without a JSON parser.

A writer puts the members of all its ``add`` actions in one order. So these lines differ only in
their values. The text between the values must be that of the first line, which the json module
parses. This takes half as long as Arrow's JSON reader, which reads all other lines.

A line that is cut is valid JSON and has these values, no matter how their places were found:

- The text between the values is equal to that of the first line, byte for byte.
- A string has no quote, no backslash and no control character. So it ends where it was cut.
- A number has only digits, and no additional zero. A flag is ``true`` or ``false``.

Statistics are JSON in a string, so their quotes are escaped. They are cut in this form, if nothing
else in them is escaped. ``unescape_stats`` removes the backslashes when the statistics are needed;
most commands do not need them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltactl.log.commits.columns import MEMBERS
from deltactl.log.commits.cut_values import LOW_BYTES, CutError, LineText
from deltactl.log.commits.lines import CommitLines, Positions

_MOST_BYTES: Final = (1 << 31) - 1  # positions in a text have 31 bits
_WORD_BYTES: Final = 8
_BACKSLASH: Final = ord("\\")

# A name and a value. The groups after the name: string, number, flag, start of an object. Without
# the possessive quantifiers, a string would need a hundred times its size.
_MEMBER: Final = re.compile(
    rb'"([^"\\]*)"\s*:\s*(?:"((?:[^"\\]++|\\")*+)"|([0-9]+)|(true|false)|(\{))'
)
_OBJECT: Final = 5
_FIRST_NUMBER: Final = 2  # Python's zero and one are equal to its booleans
_MAY_BE_NULL: Final = frozenset(
    {"tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"}
)
_TYPES: Final = {pa.string(): str, pa.int64(): int, pa.bool_(): bool}

_Name: TypeAlias = tuple[str, str | None]
"""The name of a member; for a partition value, ``partitionValues`` and the key."""


def cut_adds(lines: CommitLines, keys: frozenset[str]) -> pa.StructArray | None:
    """Return the actions of all ``add`` lines as structs; ``None`` if the lines are not alike.

    Args:
        lines: the lines, with at least one add.
        keys: the keys that ``partitionValues`` of each add must have, and no others.

    Returns:
        Structs without nulls, with the members of the lines. ``stats`` is still escaped.
    """
    places = lines.places("add")
    if len(lines.data) > _MOST_BYTES:
        return None
    layout = _find_layout(lines.line(places[0]), keys)
    if layout is None:
        return None
    text = LineText(lines.data, *lines.spans(places))
    try:
        spans = text.find_values(layout.constants)
        return _to_structs(
            [_cut(text, name, *span) for name, span in zip(layout.names, spans, strict=True)],
            layout,
            len(places),
        )
    except CutError:
        return None


def unescape_stats(files: pa.Table) -> pa.Table:
    """Return file actions of :func:`cut_adds` with ``stats`` as in all other tables."""
    place = files.schema.get_field_index("stats")
    stats = pa.chunked_array(
        [unescape_texts(chunk) for chunk in files["stats"].chunks], pa.string()
    )
    return files.set_column(place, files.schema.field(place), stats)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The names of the values of each line, and the texts before, between and after the values."""

    names: Sequence[_Name]
    constants: Sequence[bytes]
    has_partition_values: bool


def _find_layout(line: bytes, keys: frozenset[str]) -> _Layout | None:
    """Return the layout of an ``add`` line; ``None`` if it has values that cannot be cut."""
    try:
        add = json.loads(line)["add"]
        names = list(_list_names(add))
        values = add.get("partitionValues", {})
    except (ValueError, RecursionError, TypeError, AttributeError):
        return None
    if ("path", None) not in names or values.keys() != keys:
        return None
    found = [match for match in _MEMBER.finditer(line) if match.lastindex != _OBJECT]
    if len(found) != len(names):
        return None
    edges = [0, *chain.from_iterable(match.span(match.lastindex or 0) for match in found)]
    constants = [line[a:b] for a, b in zip(edges[::2], [*edges[1::2], len(line)], strict=True)]
    # Two other values in each place must give the expected objects. With one value, a line could
    # have this value in another place too: JSON allows a member twice, and the last one counts.
    for base in (_FIRST_NUMBER, _FIRST_NUMBER + len(names)):
        others = [_other_value(name, base, base + number) for number, name in enumerate(names)]
        if not _has_values(constants, others, _with_values(add, names, others)):
            return None
    return _Layout(names, constants, "partitionValues" in add)


def _has_values(
    constants: Sequence[bytes], values: Sequence[str | int | bool], expected: dict[str, Any]
) -> bool:
    """Return whether a line with some values between the constants is the expected action."""
    texts = [
        value.encode() if isinstance(value, str) else json.dumps(value).encode() for value in values
    ]
    line = b"".join(chain.from_iterable(zip(constants, [*texts, b""], strict=True)))
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return False
    return found == {"add": expected}


def _list_names(add: dict[str, Any]) -> Iterator[_Name]:
    """Yield the names of the values of an action.

    Raises:
        TypeError: a member has another type, or is not cut.
    """
    for name, value in add.items():
        if name == "partitionValues":
            for key, text in value.items():
                if not isinstance(text, str):
                    raise TypeError
                yield name, key
        elif value is None and name in _MAY_BE_NULL:
            continue  # as delta-rs writes them: it is part of the text between the values
        elif type(value) is not _TYPES.get(MEMBERS.get(name)):
            raise TypeError
        else:
            yield name, None


def _other_value(name: _Name, base: int, number: int) -> str | int | bool:
    kind = pa.string() if name[1] is not None else MEMBERS[name[0]]
    if kind == pa.bool_():
        return base == _FIRST_NUMBER
    return number if kind == pa.int64() else f"v{number}"


def _with_values(
    add: dict[str, Any], names: Sequence[_Name], values: Sequence[str | int | bool]
) -> dict[str, Any]:
    result: dict[str, Any] = {**add}
    if "partitionValues" in add:
        result["partitionValues"] = {}
    for (name, key), value in zip(names, values, strict=True):
        if key is None:
            result[name] = value
        else:
            result[name][key] = value
    return result


def _cut(text: LineText, name: _Name, starts: Positions, ends: Positions) -> pa.Array:
    member, key = name
    kind = pa.string() if key is not None else MEMBERS[member]
    if kind == pa.int64():
        return text.numbers(starts, ends)
    if kind == pa.bool_():
        return text.flags(starts, ends)
    return text.strings(starts, ends, escaped=name == ("stats", None))


def _to_structs(arrays: Sequence[pa.Array], layout: _Layout, num_rows: int) -> pa.StructArray:
    found = dict(zip(layout.names, arrays, strict=True))
    members = {name: array for (name, key), array in found.items() if key is None}
    if layout.has_partition_values:
        keys = sorted(key for _, key in found if key is not None)
        values = [found["partitionValues", key] for key in keys]
        members["partitionValues"] = _struct_of(keys, values, num_rows)
    return _struct_of(list(members), list(members.values()), num_rows)


def _struct_of(names: list[str], arrays: list[pa.Array], num_rows: int) -> pa.StructArray:
    if not names:
        return pa.Array.from_buffers(pa.struct([]), num_rows, [None])
    return pa.StructArray.from_arrays(arrays, names)


def unescape_texts(texts: pa.Array) -> pa.Array:
    """Return escaped ``stats`` of :func:`cut_adds` without backslashes.

    Unescaped ones do not change: all backslashes of the escaped ones are before quotes.
    """
    if not len(texts) or texts.null_count == len(texts):
        return texts
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    is_dropped = np.zeros((len(data) // _WORD_BYTES + 1) * _WORD_BYTES, np.bool_)
    np.equal(data, _BACKSLASH, out=is_dropped[: len(data)])
    words = is_dropped.view("<u8")
    before = np.concatenate(([0], np.cumsum(_count_bytes(words), dtype=np.int32)))
    word, rest = offsets // _WORD_BYTES, offsets % _WORD_BYTES
    dropped = before[word] + _count_bytes(words[word] & LOW_BYTES[rest])
    buffers = [
        None,
        pa.py_buffer((offsets - dropped).astype(np.int32)),
        pa.py_buffer(data[~is_dropped[: len(data)]]),
    ]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _count_bytes(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Return how many bytes of each word are one. The other bytes must be zero."""
    return (words * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.int32)
