"""Files put together from written bytes and ranges of other files."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.errors import StorageError
from deltactl.storage.assembly import open_assembly
from deltactl.storage.local.store import LocalStore
from deltactl.storage.objects.part_writer import MIN_PART_BYTES, PartWriter
from deltactl.storage.objects.services import CannotCopyError
from deltactl.storage.store import Store
from tests.support.stores import MemoryStore

CONTENT = os.urandom(300_000)


def _stores(tmp_path: Path) -> list[Store]:
    return [LocalStore(str(tmp_path)), MemoryStore("memory://assembly")]


def test_bytes_come_in_the_order_of_the_calls(tmp_path: Path) -> None:
    for store in _stores(tmp_path):
        store.put("source", CONTENT)
        store.put("other", CONTENT[::-1])
        assembly = open_assembly(store, "dir/made")
        assembly.write(b"head")
        assembly.copy("source", 100, 200_000)
        assembly.copy("other", 0, 5)
        assembly.write(memoryview(b"tail"))
        wanted = b"head" + CONTENT[100:200_100] + CONTENT[::-1][:5] + b"tail"
        assert assembly.tell() == len(wanted)
        assembly.close()
        assembly.close()
        assembly.discard()
        assert store.read("dir/made") == wanted
        store.delete_many(["dir/made"])


def test_a_range_beyond_the_end_is_an_error_and_discarding_leaves_nothing(tmp_path: Path) -> None:
    for store in _stores(tmp_path):
        store.put("source", CONTENT)
        assembly = open_assembly(store, "made")
        with pytest.raises(StorageError):
            assembly.copy("source", len(CONTENT) - 10, 20)
        assembly.discard()
        assert store.stat_many(["made"]) == [None]


class _Upload:
    """Parts in memory, under the rules of S3."""

    def __init__(self, objects: dict[str, bytes], *, copies: bool) -> None:
        self.objects, self._copies = objects, copies
        self.parts: list[bytes] = []
        self.sent = 0
        self.is_finished = False

    def add(self, data: bytes) -> None:
        self._append(data)
        self.sent += len(data)

    def copy(self, source: str, offset: int, length: int) -> None:
        if not self._copies:
            raise CannotCopyError("NotImplemented")
        data = self.objects[source][offset : offset + length]
        assert len(data) == length
        self._append(data)

    def _append(self, data: bytes) -> None:
        assert data
        # Only the last part may be short.
        assert all(len(part) >= MIN_PART_BYTES for part in self.parts)
        self.parts.append(data)

    def finish(self) -> None:
        self.is_finished = True

    def abandon(self) -> None:
        self.parts.clear()


_MIB = 1 << 20
_BIG = {name: os.urandom(1 << 16) * 320 for name in "ab"}  # 20 MiB each


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.integers(0, 7 * _MIB)
        | st.tuples(st.sampled_from("ab"), st.integers(0, 10 * _MIB), st.integers(0, 10 * _MIB)),
        max_size=8,
    ),
    st.booleans(),
)
def test_parts_have_the_least_size_and_what_can_be_copied_is_not_sent(
    steps: list[int | tuple[str, int, int]], copies: bool
) -> None:
    put: list[bytes] = []
    uploads: list[_Upload] = []

    def begin() -> _Upload:
        uploads.append(_Upload(_BIG, copies=copies))
        return uploads[0]

    assembly = PartWriter(put.append, begin, lambda name, at, size: _BIG[name][at : at + size])
    wanted, written, ranges = b"", 0, 0
    for step in steps:
        if isinstance(step, int):
            assembly.write(b"x" * step)
            wanted += b"x" * step
            written += step
        else:
            name, offset, length = step
            assembly.copy(name, offset, length)
            wanted += _BIG[name][offset : offset + length]
            ranges += 1
    assert assembly.tell() == len(wanted)
    assembly.close()
    assert b"".join(uploads[0].parts if uploads else put) == wanted
    if copies and uploads:
        # Each range fills up one part before it, and is sent whole if it is short itself.
        assert uploads[0].sent <= written + ranges * 2 * MIN_PART_BYTES


def test_whole_inputs_are_copied_from_their_first_byte() -> None:
    uploads: list[_Upload] = []

    def begin() -> _Upload:
        uploads.append(_Upload(_BIG, copies=True))
        return uploads[0]

    read = Mock(side_effect=AssertionError("nothing needs to be read"))
    assembly = PartWriter(lambda data: None, begin, read)
    for name in ("a", "b"):
        for start in range(0, 20 * _MIB, 4 * _MIB):  # neighbours become one part
            assembly.copy(name, start, 4 * _MIB)
    assembly.write(b"footer")
    assembly.close()
    assert [len(part) for part in uploads[0].parts] == [20 * _MIB, 20 * _MIB, 6]
    assert uploads[0].sent == 6


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(8 * _MIB, 300 * _MIB), min_size=2, max_size=60).filter(
        lambda sizes: sum(sizes) >= 256 * _MIB
    ),
    st.integers(1, 2 * _MIB),
)
def test_at_most_three_percent_of_large_outputs_of_whole_inputs_pass_the_client(
    sizes: list[int], footer: int
) -> None:
    """The footer with all indexes is at most as large as here; nothing else is sent or read."""
    sent = 0

    class Counting:
        def add(self, data: bytes) -> None:
            nonlocal sent
            sent += len(data)

        def copy(self, source: str, offset: int, length: int) -> None:
            assert length >= MIN_PART_BYTES

        def finish(self) -> None: ...

        def abandon(self) -> None: ...

    read = Mock(side_effect=AssertionError("nothing needs to be read"))
    assembly = PartWriter(lambda data: None, Counting, read)
    for number, size in enumerate(sizes):
        assembly.copy(str(number), 0 if number == 0 else 4, size)
    assembly.write(bytes(footer))
    assembly.close()
    assert sent == footer <= 0.03 * assembly.tell()


def test_discarding_abandons_the_parts() -> None:
    upload = _Upload(_BIG, copies=True)
    assembly = PartWriter(lambda data: None, lambda: upload, lambda name, at, size: b"")
    assembly.copy("a", 0, 6 * _MIB)
    assembly.write(b"x")
    assert upload.parts
    assembly.discard()
    assembly.close()
    assert not upload.parts
    assert not upload.is_finished
