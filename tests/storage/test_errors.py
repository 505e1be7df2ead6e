"""No error of the system gets past the mapping, and each lands in the right place."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from deltactl.errors import (
    AccessDeniedError,
    CredentialsMissingError,
    CredentialsRefusedError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    TransientStorageError,
    UnreachableError,
)
from deltactl.storage.errors import is_transient, map_error, mapped_errors
from deltactl.storage.local.store import LocalStore
from deltactl.storage.providers import AZURE

EXPECTED_KINDS: dict[type[OSError], type[StorageError]] = {
    OSError: StorageError,
    FileNotFoundError: ObjectNotFoundError,
    FileExistsError: ObjectExistsError,
    PermissionError: AccessDeniedError,
    NotADirectoryError: ObjectNotFoundError,
    IsADirectoryError: StorageError,
    BlockingIOError: TransientStorageError,
    InterruptedError: TransientStorageError,
    TimeoutError: TransientStorageError,
    ConnectionError: TransientStorageError,
    BrokenPipeError: TransientStorageError,
    ConnectionAbortedError: TransientStorageError,
    ConnectionRefusedError: UnreachableError,
    ConnectionResetError: TransientStorageError,
    ChildProcessError: StorageError,
    ProcessLookupError: StorageError,
}


@pytest.mark.parametrize(
    ("error", "kind", "reason", "hint"),
    [
        (
            OSError("Unable to load libjvm dlopen(/usr/lib/libjvm.so) failed: /usr/lib/libjvm.so"),
            StorageError,
            "Unable to load libjvm",
            "Install Java",
        ),
        (
            ValueError("unable to connect to account for Connection string is malformed."),
            CredentialsRefusedError,
            "Connection string is malformed",
            "Correct the credentials.",
        ),
    ],
)
def test_words_of_libraries(
    error: Exception, kind: type[StorageError], reason: str, hint: str
) -> None:
    mapped = map_error(error, "connect to", "", "x://y", access=AZURE.access)
    assert (type(mapped), mapped.message) == (kind, f"cannot connect to x://y: {reason}")
    assert str(mapped.hint).startswith(hint)


def test_every_kind_of_os_error_has_its_place() -> None:
    builtin = {
        kind
        for kind in [OSError, *OSError.__subclasses__(), *ConnectionError.__subclasses__()]
        if kind.__module__ == "builtins"
    }
    assert builtin == set(EXPECTED_KINDS)
    for kind, expected in EXPECTED_KINDS.items():
        # Libraries raise them with words only, the system with a number too.
        assert type(map_error(kind("words"), "read", "x", "file:///t")) is expected


@pytest.mark.parametrize("number", sorted(errno.errorcode), ids=errno.errorcode.get)
def test_every_error_number_is_mapped(number: int) -> None:
    error = OSError(number, os.strerror(number))
    mapped = map_error(error, "read", "a\nb", "file:///t")
    if type(error) is not OSError:
        assert type(mapped) is EXPECTED_KINDS[type(error)]
    assert type(mapped).__module__ in ("deltactl.errors", "deltactl.storage.errors")
    assert mapped.message == f"cannot read 'a\\nb' in file:///t: {os.strerror(number)}"
    assert mapped.exit_code == 8
    codes = "STORAGE STORAGE_BUSY OBJECT_NOT_FOUND OBJECT_EXISTS ACCESS_DENIED UNREACHABLE"
    assert mapped.code in codes.split()


@pytest.mark.parametrize("name", ["ENOSPC", "EROFS", "EMFILE", "EDQUOT", "EIO", "ENAMETOOLONG"])
def test_what_users_can_fix_comes_with_a_hint(name: str) -> None:
    mapped = map_error(OSError(getattr(errno, name), "words"), "write", "x", "file:///t")
    assert type(mapped) is StorageError
    assert mapped.hint
    assert not mapped.retryable


@pytest.mark.parametrize("name", ["EBUSY", "ESTALE", "EREMOTEIO", "ENETUNREACH", "EHOSTUNREACH"])
def test_what_passes_by_itself_is_retryable(name: str) -> None:
    assert map_error(OSError(getattr(errno, name), "words"), "read", "x", "t").retryable


class _HttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("words with s3cr3t in them")
        self.status = status


class NoCredentialsError(Exception):
    """Named as botocore's."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (_HttpError(401), CredentialsRefusedError),
        (_HttpError(403), AccessDeniedError),
        (_HttpError(404), ObjectNotFoundError),
        (_HttpError(412), ObjectExistsError),
        (_HttpError(409), TransientStorageError),
        (_HttpError(429), TransientStorageError),
        (_HttpError(503), TransientStorageError),
        (_HttpError(400), StorageError),
        (NoCredentialsError(), CredentialsMissingError),
        (ValueError("words"), StorageError),
    ],
)
def test_errors_of_cloud_libraries(error: Exception, expected: type[StorageError]) -> None:
    mapped = map_error(error, "read", "x", "s3://b", ["s3cr3t"])
    assert type(mapped) is expected
    assert "s3cr3t" not in mapped.message


def test_own_errors_pass_unchanged() -> None:
    with pytest.raises(SafetyError, match="as it was"):
        map_error(SafetyError("as it was"), "read", "x", "t")
    with pytest.raises(SafetyError, match="as it was"), mapped_errors("read", "x", "t"):
        raise SafetyError("as it was")


def delete(store: LocalStore) -> None:
    for error in store.delete_many(["x"]).values():
        raise error


CALLS: dict[str, Callable[[LocalStore], object]] = {
    "list_from": lambda store: list(store.list_from("")),
    "walk": lambda store: list(store.walk("")),
    "stat_many": lambda store: store.stat_many(["x"]),
    "read": lambda store: store.read("x"),
    "read_many": lambda store: list(store.read_many(["x"])),
    "read_ranges": lambda store: store.read_ranges("x", [(0, 1)]),
    "read_tail": lambda store: store.read_tail("x", 1),
    "open_input": lambda store: store.open_input("x"),
    "open_output": lambda store: store.open_output("x"),
    "put": lambda store: store.put("y", b""),
    "put_if_absent": lambda store: store.put_if_absent("y", b""),
    "sync_directories": lambda store: store.sync_directories(["x"]),
    "delete_many": delete,
}


@pytest.mark.parametrize("method", CALLS)
def test_every_method_maps_what_the_system_says(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(str(tmp_path))
    store.put("x", b"x")
    fail = Mock(side_effect=OSError(errno.EIO, "the device failed"))
    with monkeypatch.context() as patch:
        for function in ("open", "stat", "scandir", "unlink", "fsync", "link", "replace"):
            patch.setattr(os, function, fail)
        patch.setattr("builtins.open", fail)
        patch.setattr("pyarrow.OSFile", fail)
        with pytest.raises(StorageError, match="the device failed"):
            CALLS[method](store)


def test_a_download_that_azure_gave_up_may_be_tried_again() -> None:
    from azure.core.exceptions import HttpResponseError, IncompleteReadError

    given_up = HttpResponseError("not completed")
    assert not is_transient(given_up)
    given_up.__cause__ = IncompleteReadError("not completed")
    assert is_transient(given_up)


def test_writing_into_a_full_disk_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    from deltactl.storage.local import files as local_files

    monkeypatch.setattr(local_files, "_CREATE", os.O_WRONLY)
    store = LocalStore(str(tmp_path))
    (tmp_path / "x").symlink_to(full)
    file = store.open_output("x")
    file.write(b"some")
    with pytest.raises(StorageError, match="No space left") as caught:
        file.close()
    assert caught.value.hint == "Free space on the disk, which is full; then rerun."
    assert file.closed


def test_a_directory_that_cannot_be_created_has_a_hint() -> None:
    """In /proc, the error is that the new directory does not exist."""
    hints = [
        map_error(FileNotFoundError(errno.ENOENT, "No such file"), verb, "x", "file:///proc/x").hint
        for verb in ("write", "read")
    ]
    assert hints[0] is not None
    assert hints[0].startswith("Choose another directory: ")
    assert hints[1] is None
