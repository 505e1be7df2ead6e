"""Ranges that the kernel copies, and what happens where it cannot."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from deltactl.errors import StorageError
from deltactl.storage.local.files import start_writing
from deltactl.storage.local.store import LocalStore

CONTENT = os.urandom(3_000_000)


def _copy(folder: Path) -> bytes:
    store = LocalStore(str(folder))
    store.put("source", CONTENT)
    made = store.range_copies.open_assembly("made")
    try:
        made.write(b"head")
        made.copy("source", 10, 2_500_000)
        made.write(b"tail")
        made.close()
    finally:
        made.discard()
    return store.read("made")


_WANTED = b"head" + CONTENT[10:2_500_010] + b"tail"


def test_the_kernel_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(side_effect=AssertionError("nothing needs to be read"))
    monkeypatch.setattr(os, "pread", read)
    assert _copy(tmp_path) == _WANTED


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS])
def test_bytes_are_read_and_written_where_the_kernel_cannot_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As between two file systems; at once, or after a part was copied."""
    real, calls = os.copy_file_range, list[int]()

    def refuse(source: int, target: int, count: int, offset: int) -> int:
        calls.append(offset)
        if len(calls) > 1:
            raise OSError(number, os.strerror(number))
        return real(source, target, min(count, 1000), offset)

    monkeypatch.setattr(os, "copy_file_range", refuse)
    assert _copy(tmp_path) == _WANTED
    assert calls == [10, 1010]


def test_a_full_disk_is_an_error_and_not_a_reason_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(os, "copy_file_range", refuse)
    with pytest.raises(StorageError, match="source"):
        _copy(tmp_path)
    assert not (tmp_path / "made").exists()


_LARGE = """
import os, resource, sys
from deltactl.storage.local.files import start_writing
from deltactl.storage.local.store import LocalStore

store = LocalStore(sys.argv[1])
made = store.range_copies.open_assembly("made")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(4):
    made.copy("source", 0, 1 << 28)
made.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_is_flat(tmp_path: Path) -> None:
    """1 GiB of a sparse file."""
    with (tmp_path / "source").open("wb") as file:
        file.truncate(1 << 28)
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert (tmp_path / "made").stat().st_size == 1 << 30
    assert int(done.stdout) < 8 << 10, "KiB"


@pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")
def test_the_kernel_is_told_to_write_a_file_that_nothing_waits_for(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(CONTENT)
        assert start_writing(file.fileno())
    reading, writing = os.pipe()
    assert not start_writing(writing), "a pipe has no content on a disk"
    os.close(reading)
    os.close(writing)
