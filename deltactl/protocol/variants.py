"""Convert variants in Parquet groups, shredded or not, to the two binaries of Delta.

Source: Parquet's VariantEncoding.md and VariantShredding.md; PROTOCOL.md, "Variant Data Type".

Shredded groups are rebuilt column by column: each level returns a list with the binary of every
row. Values that are binary in the file do not change. Only their outermost level is parsed, so that
a variant built from them is valid. If data are invalid by the specification, an error is raised:
readers may interpret the data differently, and a rewrite would make one interpretation permanent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DataFileError, UnsupportedFeatureError
from deltactl.protocol.arrow_schemas import VARIANT_TYPE

Binaries: TypeAlias = list[bytes | None]

_SHORT_STRING, _OBJECT, _ARRAY = 1, 2, 3
_NULL: Final = b"\x00"
# The number of bytes after the first one, by primitive id. Binary and string values begin with
# their length.
_WIDTHS: Final = (0, 0, 0, 1, 2, 4, 8, 8, 5, 9, 17, 4, 8, 8, 4, 4, 4, 8, 8, 8, 16)
_BINARY_ID, _STRING_ID = 15, 16
# fmt: off
_FIXED_IDS: Final[Mapping[pa.DataType, int]] = {
    pa.int8(): 3, pa.int16(): 4, pa.int32(): 5, pa.int64(): 6, pa.float64(): 7, pa.date32(): 11,
    pa.timestamp("us"): 13, pa.float32(): 14, pa.time64("us"): 17, pa.timestamp("ns"): 19,
    pa.binary(16): 20,
}
# fmt: on
_ZONED_IDS: Final = {"us": 12, "ns": 18}
_STRINGS: Final = (pa.string(), pa.large_string(), pa.string_view())
_BINARIES: Final = (pa.binary(), pa.large_binary(), pa.binary_view())
_LISTS: Final = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType)


def read_variant(array: pa.Array) -> pa.StructArray:
    """Return a variant column from Parquet as ``VARIANT_TYPE``; null rows stay null.

    Args:
        array: structs with ``metadata``, ``value`` and optionally ``typed_value``, in any order.

    Raises:
        DataFileError: the group is not a variant, or its data are invalid by the specification.
        UnsupportedFeatureError: values are shredded as a type that deltactl does not support.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    try:
        members = _members(array, {"metadata", "value", "typed_value"}, "variant")
        metadata = _binary(members.pop("metadata", None), "metadata")
        if metadata.null_count > array.null_count:
            raise DataFileError("a variant has no metadata")
        if "typed_value" in members:
            array.validate(full=True)
            value = pa.array(_rebuild(members, metadata.to_pylist(), "variant"), pa.binary())
        else:
            value = _filled(array, "value", _binary(members.get("value"), "value"), _NULL)
    except pa.ArrowInvalid as error:
        raise DataFileError(f"a variant column is not valid: {error}"[:500]) from error
    except RecursionError as error:
        raise UnsupportedFeatureError(
            "a variant column has too many levels of shredded fields"
        ) from error
    if isinstance(value, pa.ChunkedArray):
        raise DataFileError("the variants of one batch take more than 2 GiB when rebuilt")
    value = pc.fill_null(value, _NULL) if value.null_count else value
    metadata = _filled(array, "metadata", metadata, b"")
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([value, metadata], fields=list(VARIANT_TYPE), mask=mask)


def _filled(group: pa.Array, name: str, masked: pa.Array, filler: bytes) -> pa.Array:
    """Return a field of a group without nulls. If the group is null, the value is ignored.

    A required value that is missing becomes the variant null.
    """
    held = group.field(name)
    return _binary(held, name) if not held.null_count else pc.fill_null(masked, filler)


def _members(group: pa.Array, known: Set[str], path: str) -> dict[str, pa.Array]:
    """Return the group's columns by name, null where the group is null."""
    names = [field.name for field in group.type] if pa.types.is_struct(group.type) else []
    if not names or len(set(names)) < len(names) or not set(names) <= known:
        raise DataFileError(
            f"{path} must be a group with the fields of a variant, but is {group.type}"[:500]
        )
    return dict(zip(names, group.flatten(), strict=True))


def _binary(array: pa.Array | None, path: str) -> pa.Array:
    if array is None or array.type not in _BINARIES:
        kind = "missing" if array is None else array.type
        raise DataFileError(f"the {path} of a variant is not binary but {kind}"[:500])
    return array.cast(pa.binary())


def _rebuild(members: Mapping[str, pa.Array], metadata: Binaries, path: str) -> Binaries:
    """Return each row's binary, built from ``value`` and ``typed_value``; ``None`` if missing."""
    values: Binaries = [None] * len(metadata)
    if "value" in members:
        values = _binary(members["value"], f"value at {path}").to_pylist()
        for value in values:
            if value is not None and _end(value, 0) not in {len(value), None}:
                raise DataFileError(f"a variant's value at {path} has the wrong length")
    typed = members.get("typed_value")
    if typed is None:
        return values
    if pa.types.is_dictionary(typed.type):
        typed = typed.dictionary_decode()
    if pa.types.is_struct(typed.type):
        return _objects(values, typed, metadata, path)
    is_list = isinstance(typed.type, _LISTS)
    encoded = _arrays(typed, metadata, path) if is_list else _primitives(typed, path)
    shredded_kind = _ARRAY if is_list else None
    return [_either(*pair, shredded_kind, path) for pair in zip(values, encoded, strict=True)]


def _either(
    value: bytes | None, encoded: bytes | None, shredded_kind: int | None, path: str
) -> bytes | None:
    if value is None:
        return encoded
    if encoded is not None:
        raise DataFileError(f"a variant has both value and typed_value at {path}")
    if value[0] & 3 == shredded_kind:
        raise DataFileError(
            f"the variant at {path} is in the field 'value', but a variant of this type must be "
            "in the field 'typed_value'"
        )
    return value


def _primitives(typed: pa.Array, path: str) -> Binaries:
    if isinstance(typed.type, pa.BaseExtensionType) and typed.type.extension_name == "arrow.uuid":
        typed = typed.storage
    kind = typed.type
    if pa.types.is_boolean(kind):
        return [None if flag is None else bytes([4 if flag else 8]) for flag in typed.to_pylist()]
    if kind in _STRINGS or kind in _BINARIES:
        blobs: Binaries = typed.cast(pa.binary()).to_pylist()
        return [None if blob is None else _sized(blob, kind in _STRINGS) for blob in blobs]
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= 38:
        id_ = 8 if kind.precision <= 9 else 9 if kind.precision <= 18 else 10
        wide = typed.cast(pa.decimal128(kind.precision, kind.scale))
        return _prefixed(bytes([id_ << 2, kind.scale]), wide, _WIDTHS[id_] - 1)
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    number = _ZONED_IDS.get(kind.unit) if zoned else _FIXED_IDS.get(kind)
    if number is None:
        raise UnsupportedFeatureError(
            f"the variant at {path} is shredded as {kind}, which deltactl does not support"[:500]
        )
    return _prefixed(bytes([number << 2]), typed, _WIDTHS[number])


def _prefixed(head: bytes, array: pa.Array, width: int) -> Binaries:
    """Return ``head`` and the first bytes of each slot.

    Arrow and variants are both little-endian.
    """
    slots: Binaries = array.view(pa.binary(array.type.bit_width // 8)).to_pylist()
    return [None if slot is None else head + slot[:width] for slot in slots]


def _sized(data: bytes, is_string: bool) -> bytes:
    if is_string and len(data) < 64:
        return bytes([len(data) << 2 | _SHORT_STRING]) + data
    return bytes([(_STRING_ID if is_string else _BINARY_ID) << 2]) + _ints([len(data)], 4) + data


def _arrays(typed: pa.Array, metadata: Binaries, path: str) -> Binaries:
    lengths: list[int | None] = pc.list_value_length(typed).to_pylist()
    pairs = zip(metadata, lengths, strict=True)
    spread = [row for row, length in pairs for _ in range(length or 0)]
    members = _members(pc.list_flatten(typed), {"value", "typed_value"}, f"{path}[]")
    elements = (_NULL if e is None else e for e in _rebuild(members, spread, f"{path}[]"))
    return [None if length is None else _array(elements, length) for length in lengths]


def _array(elements: Iterator[bytes], count: int) -> bytes:
    values = [next(elements) for _ in range(count)]
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    size, large = _size_of(ends[-1]), count > 255
    head = bytes([large << 4 | (size - 1) << 2 | _ARRAY])
    return b"".join([head, _ints([count], 4 if large else 1), _ints(ends, size), *values])


def _objects(values: Binaries, typed: pa.Array, metadata: Binaries, path: str) -> Binaries:
    names = [field.name.encode() for field in typed.type]
    if len(set(names)) < len(names):
        raise DataFileError(f"a variant at {path} has two shredded fields of the same name")
    columns: dict[bytes, Binaries] = {}
    for name, column in zip(names, typed.flatten(), strict=True):
        inner = f"{path}.{name.decode()}"
        members = _members(column, {"value", "typed_value"}, inner)
        columns[name] = _rebuild(members, metadata, inner)
    result: Binaries = []
    rows = zip(values, typed.is_valid().to_pylist(), metadata, strict=True)
    for row, (value, is_object, dictionary) in enumerate(rows):
        if not is_object or dictionary is None:
            result.append(_either(value, None, _OBJECT, path))
        else:
            found = {name: item for name, column in columns.items() if (item := column[row])}
            result.append(_object(value, found, columns.keys(), dictionary, path))
    return result


def _object(
    residual: bytes | None,
    found: Mapping[bytes, bytes],
    shredded: Set[bytes],
    dictionary: bytes,
    path: str,
) -> bytes:
    """Return an object with the shredded fields and the unchanged fields of ``residual``."""
    names, ids = _parse_metadata(dictionary)
    fields, body = ([], b"") if residual is None else _residual(residual, names, path)
    taken = {name for name, _, _ in fields}
    if len(taken) < len(fields) or not taken.isdisjoint(shredded):
        raise DataFileError(f"a variant has the same field twice at {path}")
    end = len(body)
    for name, item in found.items():
        if name not in ids:
            raise DataFileError(
                f"a variant at {path} has a field whose name is not in the variant's metadata"
            )
        fields.append((name, ids[name], end))
        end += len(item)
    fields.sort()
    field_ids = [id_ for _, id_, _ in fields]
    id_size, size, large = _size_of(max(field_ids, default=0)), _size_of(end), len(fields) > 255
    head = bytes([large << 6 | (id_size - 1) << 4 | (size - 1) << 2 | _OBJECT])
    count = _ints([len(fields)], 4 if large else 1)
    offsets = _ints([*(offset for _, _, offset in fields), end], size)
    return b"".join([head, count, _ints(field_ids, id_size), offsets, body, *found.values()])


def _residual(
    value: bytes, names: tuple[bytes, ...], path: str
) -> tuple[list[tuple[bytes, int, int]], bytes]:
    """Return name, id and offset of each field of an object, and the bytes of all values."""
    if value[0] & 3 != _OBJECT:
        raise DataFileError(
            f"a variant at {path} is shredded as an object, but its value is not an object"
        )
    ids, offsets, _ = _layout(value, 0)
    fields = []
    for id_at, offset_at in zip(ids, offsets, strict=False):
        id_, offset = _uint(value, id_at, ids.step), _uint(value, offset_at, offsets.step)
        if id_ >= len(names) or (_end(value, offsets.stop + offset) or 0) > len(value):
            raise DataFileError(
                f"a variant at {path} has a field whose id or offset is out of range"
            )
        fields.append((names[id_], id_, offset))
    return fields, value[offsets.stop :]


def split_object(data: bytes) -> dict[bytes, bytes]:
    """Return the value of each field of an object; ``data`` are its metadata and then its value.

    Raises:
        DataFileError: the data are not valid, or not an object.
        UnsupportedFeatureError: the metadata have another version.
    """
    size = (_uint(data, 0, 1) >> 6) + 1
    start = 1 + size * (_uint(data, 1, size) + 2)
    start += _uint(data, start - size, size)
    names, _ = _parse_metadata(data[:start])
    _uint(data, start, 1)
    fields, body = _residual(data[start:], names, "an object")
    found = {name: body[offset : _end(body, offset)] for name, _, offset in fields}
    if len(found) < len(fields):
        raise DataFileError("an object has the same field twice")
    return found


def join_object(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the metadata of an object and then its value."""
    names = sorted(fields)
    ends = [0, *accumulate(map(len, names))]
    size = _size_of(max(ends[-1], len(names)))
    head = bytes([(size - 1) << 6 | 1])  # version 1
    metadata = b"".join([head, _ints([len(names), *ends], size), *names])
    return metadata + _object(None, fields, frozenset(), metadata, "an object")


@lru_cache(maxsize=64)
def _parse_metadata(metadata: bytes) -> tuple[tuple[bytes, ...], Mapping[bytes, int]]:
    """Return names by id, and ids by name. If a name is repeated, its id is the first one."""
    head = _uint(metadata, 0, 1)
    if head & 15 != 1:
        raise UnsupportedFeatureError(f"a variant's metadata has version {head & 15}, not 1")
    size = (head >> 6) + 1
    start = 1 + size * (_uint(metadata, 1, size) + 2)
    ends = [_uint(metadata, at, size) for at in range(1 + size, start, size)]
    if ends[0] or ends != sorted(ends) or start + ends[-1] > len(metadata):
        raise DataFileError("the metadata of a variant has invalid offsets")
    names = tuple(metadata[start + a : start + b] for a, b in pairwise(ends))
    return names, {name: id_ for id_, name in reversed([*enumerate(names)])}


def _layout(data: bytes, at: int) -> tuple[range, range, int]:
    """Return the positions of the ids and offsets of an object or array, and where they end."""
    high, is_object = data[at] >> 2, data[at] & 3 == _OBJECT
    offset_size, id_size = (high & 3) + 1, (high >> 2 & 3) + 1 if is_object else 0
    count_size = 4 if high >> (4 if is_object else 2) & 1 else 1
    count, start = _uint(data, at + 1, count_size), at + 1 + count_size
    ids = range(start, start + count * id_size, id_size or 1)
    offsets = range(ids.stop, ids.stop + (count + 1) * offset_size, offset_size)
    return ids, offsets, offsets.stop + _uint(data, offsets[-1], offset_size)


def _end(data: bytes, at: int) -> int | None:
    """Return where the value at ``at`` ends; ``None`` for unknown types."""
    kind, high = _uint(data, at, 1) & 3, data[at] >> 2
    if kind == _SHORT_STRING:
        return at + 1 + high
    if kind in {_OBJECT, _ARRAY}:
        return _layout(data, at)[2]
    if high >= len(_WIDTHS):
        return None
    length = _uint(data, at + 1, 4) if high in {_BINARY_ID, _STRING_ID} else 0
    return at + 1 + _WIDTHS[high] + length


def _uint(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise DataFileError("a variant is truncated")
    return int.from_bytes(data[at : at + size], "little")


def _ints(values: list[int], size: int) -> bytes:
    return b"".join([value.to_bytes(size, "little") for value in values])


def _size_of(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)
