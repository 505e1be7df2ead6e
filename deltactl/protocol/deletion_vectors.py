"""Encode and decode deletion vectors: descriptors, bitmaps, files (PROTOCOL: Deletion Vectors).

A deletion vector has the physical positions (from 0) of the deleted rows of one Parquet file. This
module reads no files: callers pass the bytes.

    stored:  read_framed(bytes from offset on) -> decode_bitmap -> live_mask
    inline:  decode_inline(descriptor)                          -> live_mask
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltactl.errors import CorruptLogError, DataFileError, UnsupportedFeatureError
from deltactl.protocol.paths import decode_path
from deltactl.protocol.z85 import decode_words, z85_decode, z85_encode

UUID_RELATIVE: Final = "u"
ABSOLUTE: Final = "p"
INLINE: Final = "i"
STORAGE_TYPES: Final = (UUID_RELATIVE, ABSOLUTE, INLINE)

FRAME_OVERHEAD: Final = 8
"""The number of bytes around a stored bitmap: the size before it, and the checksum after it."""

_FILE_VERSION: Final = b"\1"
_PORTABLE_MAGIC: Final = 1681511377
_NATIVE_MAGIC: Final = 1681511376
_UUID_CHARS: Final = 20
_UUID_FORM: Final = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
_HEX_DIGITS: Final = np.array([f"{byte:02x}" for byte in range(256)])
# The standard serialization of an empty 32-bit bitmap (no containers).
_EMPTY_ROARING: Final = struct.pack("<II", 12346, 0)
_MAX_POSITION: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor of ``add.deletionVector``.

    Args:
        storage_type: ``u`` (file with a UUID, under the table), ``p`` (absolute URI) or ``i``
            (inline).
        path_or_inline_dv: the text in the log.
        offset: the position of the size field in the file; ``None`` if the log has none.
        size_bytes: the size of the serialized bitmap, without framing and before z85.
        cardinality: the number of deleted rows.

    Raises:
        CorruptLogError: a required field is missing, or offset or size is negative.
        UnsupportedFeatureError: the storage type is not known.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_bytes: int
    cardinality: int

    def __post_init__(self) -> None:
        required = (self.storage_type, self.path_or_inline_dv, self.size_bytes, self.cardinality)
        if any(value is None for value in required):  # the log may have nulls in these fields
            raise CorruptLogError(
                f"deletion vector {self.path_or_inline_dv!r} lacks one of storageType,"
                " pathOrInlineDv, sizeInBytes and cardinality"
            )
        if self.storage_type not in STORAGE_TYPES:
            raise UnsupportedFeatureError(
                f"deletion vector {self.path_or_inline_dv!r} has storage type"
                f" {self.storage_type!r}, which deltactl does not support"
            )
        if min(self.offset or 0, self.size_bytes) < 0:
            what = self.file_name or f"inline deletion vector {self.path_or_inline_dv[:40]!r}"
            raise CorruptLogError(
                f"in the log, the offset ({self.offset}) or the size ({self.size_bytes} bytes) of "
                f"{what} is negative"
            )

    @property
    def file_name(self) -> str | None:
        """Return the decoded name of the file, relative or absolute; ``None`` if inline.

        The prefix of a relative name is from the log: callers must check it with
        ``paths.leaves_root``.

        Raises:
            CorruptLogError: the text contains no UUID, or the URI cannot be decoded.
        """
        text = self.path_or_inline_dv
        if self.storage_type == INLINE:
            return None
        if self.storage_type == ABSOLUTE:
            return decode_path(text)
        prefix, encoded = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
        try:
            name = f"deletion_vector_{UUID(bytes=z85_decode(encoded))}.bin"
        except ValueError as error:
            raise CorruptLogError(f"deletion vector {text!r} has no valid UUID: {error}") from None
        return f"{prefix}/{name}" if prefix else name


def unique_ids(dv: pa.StructArray | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the unique id of each vector (PROTOCOL: Derived Fields). A null row stays null.

    Args:
        dv: structs with ``storage_type``, ``path_or_inline_dv`` and ``offset``.
    """
    base = pc.binary_join_element_wise(
        pc.struct_field(dv, "storage_type"), pc.struct_field(dv, "path_or_inline_dv"), ""
    )
    offsets = pc.struct_field(dv, "offset")
    if offsets.null_count == len(offsets):
        return base
    at_offset = pc.binary_join_element_wise("@", offsets.cast(pa.string()), "")
    return pc.binary_join_element_wise(base, pc.fill_null(at_offset, ""), "")


def vector_ends(dv: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the bytes that the file of each stored vector must have at least.

    Args:
        dv: structs with ``offset`` and ``size_bytes``.
    """
    offsets = pc.fill_null(pc.struct_field(dv, "offset"), 0).cast(pa.int64())
    sizes = pc.struct_field(dv, "size_bytes").cast(pa.int64())
    return pc.add(pc.add(offsets, sizes), FRAME_OVERHEAD)


def vector_files(dv: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return :attr:`DeletionVector.file_name` of each row; null if the row has no file.

    Args:
        dv: structs with ``storage_type`` and ``path_or_inline_dv``.

    Raises:
        UnsupportedFeatureError, CorruptLogError: as for :class:`DeletionVector`.
    """
    if dv.null_count == len(dv):
        return pa.chunked_array([pa.nulls(len(dv), pa.string())])
    kinds, texts = pc.struct_field(dv, "storage_type"), pc.struct_field(dv, "path_or_inline_dv")
    joined = pc.binary_join_element_wise(kinds, texts, "").combine_chunks()
    coded = joined.dictionary_encode()
    distinct = coded.dictionary
    names = _relative_vector_files(distinct)
    rest = pc.and_(pc.is_null(names), pc.invert(pc.starts_with(distinct, INLINE)))
    if pc.any(rest).as_py():
        found = [
            DeletionVector(text[:1], text[1:], None, 0, 0).file_name
            for text in distinct.filter(rest).to_pylist()
        ]
        names = pc.replace_with_mask(names, rest, pa.array(found, pa.string()))
    return pa.chunked_array([names.take(coded.indices)])


def _relative_vector_files(texts: pa.Array) -> pa.Array:
    """Return file names of all vectors that have a valid UUID; null for the other vectors.

    Args:
        texts: storage type and path of each vector in one text, without nulls.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    plain = np.diff(offsets) > _UUID_CHARS
    if not plain.any():
        return pa.nulls(len(texts), pa.string())
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    plain[plain] = data[offsets[:-1][plain]] == ord(UUID_RELATIVE)  # others may start at the end
    if not plain.any():
        return pa.nulls(len(texts), pa.string())
    ends = np.where(plain, offsets[1:], _UUID_CHARS)
    words, valid = decode_words(data[ends[:, None] + np.arange(-_UUID_CHARS, 0)])
    digits = np.char.encode(_HEX_DIGITS)[words.astype(">u4").view(np.uint8)].view(np.uint8)
    uuids = np.full((len(texts), len(_UUID_FORM)), ord("-"), np.uint8)
    uuids[:, [i for i, char in enumerate(_UUID_FORM) if char != "-"]] = digits.reshape(-1, 32)
    starts = pa.py_buffer(np.arange(len(texts) + 1, dtype=np.int32) * len(_UUID_FORM))
    uuid_texts = pa.Array.from_buffers(
        pa.string(), len(texts), [None, starts, pa.py_buffer(uuids.tobytes())]
    )
    prefixes = pc.utf8_slice_codeunits(texts, 1, -_UUID_CHARS)
    directories = pc.if_else(
        pc.equal(prefixes, ""), "", pc.binary_join_element_wise(prefixes, "", "/")
    )
    names = pc.binary_join_element_wise(directories, "deletion_vector_", uuid_texts, ".bin", "")
    return pc.if_else(pa.array(plain & valid), names, pa.scalar(None, pa.string()))


def encode_bitmap(bitmap: BitMap64) -> bytes:
    """Return deleted row positions in the portable format, which :func:`decode_bitmap` reads."""
    return struct.pack("<I", _PORTABLE_MAGIC) + bitmap.serialize()


def encode_inline(payload: bytes, cardinality: int) -> DeletionVector:
    """Return the descriptor of a vector that is in the log itself."""
    padded = payload + bytes(-len(payload) % 4)
    return DeletionVector(INLINE, z85_encode(padded), None, len(payload), cardinality)


def encode_file(
    payload: bytes, cardinality: int, identifier: UUID, prefix: str
) -> tuple[DeletionVector, bytes]:
    """Return the descriptor of a vector that is stored in a new file, and the bytes of the file."""
    size, checksum = struct.pack(">i", len(payload)), struct.pack(">I", zlib.crc32(payload))
    text = prefix + z85_encode(identifier.bytes)
    vector = DeletionVector(UUID_RELATIVE, text, len(_FILE_VERSION), len(payload), cardinality)
    return vector, _FILE_VERSION + size + payload + checksum


def decode_bitmap(
    data: bytes, *, what: str = "deletion vector", cardinality: int | None = None
) -> BitMap64:
    """Return deleted row positions from a bitmap, portable or native (PROTOCOL: Format).

    Counts in ``data`` are not trusted: they do not cause allocations.

    Args:
        data: magic number and bitmap, without framing.
        what: the file or vector, for error messages.
        cardinality: the number of rows in the descriptor; not compared if ``None``.

    Raises:
        DataFileError: the magic number is unknown, the bytes are not valid, or the number of rows
            is not ``cardinality``.
    """
    try:
        (magic,) = struct.unpack_from("<I", data)
        if magic == _PORTABLE_MAGIC:
            portable = data[4:]
        elif magic == _NATIVE_MAGIC:
            portable = _native_to_portable(data)
        else:
            raise ValueError(f"its magic number is {magic}")
        bitmap = BitMap64.deserialize(portable)
    except (ValueError, IndexError, struct.error) as error:  # IndexError: no bytes at all
        raise DataFileError(f"{what} is not a deletion vector bitmap: {error}") from None
    if bitmap and bitmap.max() > _MAX_POSITION:
        raise DataFileError(f"{what} deletes rows beyond 2^63-1")
    if cardinality is not None and len(bitmap) != cardinality:
        raise DataFileError(
            f"{what} deletes {len(bitmap)} rows, but its cardinality in the log is {cardinality}"
        )
    return bitmap


def _native_to_portable(data: bytes) -> bytes:
    """Convert Spark's older form to the portable form.

    The older form is the number of bitmaps, then the length and the bytes of each bitmap.
    """
    (count,) = struct.unpack_from("<I", data, 4)
    buckets: list[bytes] = []
    position = 8
    for high_bits in range(count):  # a bucket that is not in the bytes raises
        (length,) = struct.unpack_from("<I", data, position)
        bitmap = data[position + 4 : position + 4 + length]
        if len(bitmap) != length:
            raise ValueError("it is truncated")
        if bitmap != _EMPTY_ROARING:
            buckets.append(struct.pack("<I", high_bits) + bitmap)
        position += 4 + length
    return struct.pack("<Q", len(buckets)) + b"".join(buckets)


def read_framed(data: bytes, dv: DeletionVector, what: str) -> bytes:
    """Return the bytes of the bitmap for :func:`decode_bitmap`; verify size and checksum.

    Args:
        data: the bytes of the file from ``dv.offset`` (0 if absent) on, at least ``dv.size_bytes +
            FRAME_OVERHEAD`` bytes. Later bytes are ignored.
        dv: the descriptor.
        what: the file, for error messages.

    Raises:
        DataFileError: the file is truncated, or its size or checksum differs.
    """
    needed = dv.size_bytes + FRAME_OVERHEAD
    place = f"{what} at offset {dv.offset or 0}"
    if len(data) < needed:
        raise DataFileError(f"{place} is truncated: it has {len(data)} bytes instead of {needed}")
    (size,) = struct.unpack_from(">i", data)
    if size != dv.size_bytes:
        raise DataFileError(
            f"{place} has a deletion vector of {size} bytes, but its sizeInBytes in the log is "
            f"{dv.size_bytes}"
        )
    payload = data[4 : 4 + size]
    (checksum,) = struct.unpack_from(">I", data, 4 + size)
    if zlib.crc32(payload) != checksum:
        raise DataFileError(f"{place} contains a deletion vector whose checksum does not match")
    return payload


def ensure_known_format(first: bytes, what: str) -> None:
    """Raise an error if the first byte of a file of vectors is not the version of this format.

    Raises:
        DataFileError: it is another version, whose content is not known.
    """
    if first != _FILE_VERSION:
        raise DataFileError(
            f"{what} has version {first[0]} of the format of deletion vectors; only version 1 is "
            "known"
        )


def decode_inline(dv: DeletionVector, *, count: bool = True) -> BitMap64:
    """Return deleted row positions of an inline vector. If ``count`` is true, verify their number.

    Raises:
        DataFileError: the text is not z85 or is shorter than ``size_bytes``, or an error of
            :func:`decode_bitmap`.
    """
    what = f"inline deletion vector {dv.path_or_inline_dv[:40]!r}"
    try:
        padded = z85_decode(dv.path_or_inline_dv)
    except ValueError as error:
        raise DataFileError(f"{what} cannot be read: {error}") from None
    if dv.size_bytes > len(padded):
        raise DataFileError(
            f"{what} has {len(padded)} bytes, but its sizeInBytes is {dv.size_bytes}"
        )
    cardinality = dv.cardinality if count else None
    return decode_bitmap(padded[: dv.size_bytes], what=what, cardinality=cardinality)


def live_mask(bitmap: BitMap64, first_row: int, num_rows: int) -> pa.BooleanArray:
    """Return which of the rows ``first_row`` to ``first_row + num_rows - 1`` are live.

    Returns:
        ``num_rows`` booleans, true for live rows, to filter the batch of these rows. Rows of
        ``bitmap`` outside of the range are not read.
    """
    live = np.ones(num_rows, np.bool_)
    if num_rows and bitmap:
        stop = min(first_row + num_rows, bitmap.max() + 1)
        if first_row < stop:
            deleted = (bitmap & BitMap64(range(first_row, stop))).to_array()
            live[np.asarray(deleted, np.uint64) - np.uint64(first_row)] = False
    return pa.array(live)


def ensure_within(bitmap: BitMap64, num_rows: int, what: str) -> None:
    """Raise an error if a vector has rows that a file with ``num_rows`` rows does not have.

    Raises:
        DataFileError: the vector has such rows, so it belongs to another file.
    """
    if bitmap and bitmap.max() >= num_rows:
        raise DataFileError(f"{what} deletes row {bitmap.max()} of a file with {num_rows} rows")
