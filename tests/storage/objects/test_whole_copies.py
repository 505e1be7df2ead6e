"""Whole objects copied by the service, or streamed, against real servers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deltactl.clock import SystemClock
from deltactl.errors import StorageError
from deltactl.operations.leases import Holder
from deltactl.operations.uploads import UploadingRun, note_uploads
from deltactl.storage.copying import FileToCopy, copy_many
from deltactl.storage.local.store import LocalStore
from deltactl.storage.network.counts import Requests, requests_sent
from deltactl.storage.objects import part_writer
from deltactl.storage.objects import s3 as s3_service
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.support.copying import copy_file
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import ALL_SERVICES, UNCLOSED_SESSIONS, choose_servers

pytestmark = UNCLOSED_SESSIONS
_on_all = pytest.mark.parametrize("server", ALL_SERVICES, indirect=True)
_on_s3 = pytest.mark.parametrize(
    "server", choose_servers("minio", explored=["moto"]), indirect=True
)
_on_minio = pytest.mark.parametrize("server", choose_servers("minio"), indirect=True)
_MIB = 1 << 20
LARGE = os.urandom(1 << 16) * 320  # 20 MiB


@contextmanager
def _counted() -> Iterator[list[Requests]]:
    found: list[Requests] = []
    before = requests_sent()
    yield found
    found.append(requests_sent() - before)


def _names(store: Store) -> list[str]:
    return sorted(name for names in store.walk() for name in names)


def _uploads(store: Store) -> list[str]:
    """The keys of uploads of this store in parts that were not completed."""
    assert isinstance(store, ObjectStore)
    bucket, _, folder = store._keys.root.partition("/")
    fs: Any = store._service.file_system
    answer = fs.call_s3("list_multipart_uploads", Bucket=bucket)
    keys = [upload["Key"] for upload in answer.get("Uploads") or ()]
    return [key for key in keys if key.startswith(f"{folder}/")]  # other tests share the bucket


@_on_all
def test_the_service_copies_between_tables(server: ObjectServer, root: str) -> None:
    """A look at the source, the copy, and a look at the target where the copy tells no checksum."""
    source = open_store(f"{root}/a", server.options)
    target = open_store(f"{root}/b", {**server.options, "max_requests_per_second": "1000"})
    source.put("p=a%3Ab/x #1.parquet", LARGE)
    source.put("empty", b"")
    with _counted() as sent:
        copied = copy_file(source, "p=a%3Ab/x #1.parquet", target, "y ü", size_bytes=len(LARGE))
    assert copied.how == "server"
    assert target.read("y ü") == LARGE
    assert sent[0].bytes_read < _MIB
    assert sent[0].total <= (2 if server.kind in ("moto", "minio", "fake-gcs") else 3)
    if server.kind != "azurite":
        assert copied.checksum is not None
    copy_file(source, "empty", target, "empty", size_bytes=0)
    assert target.read("empty") == b""


@_on_all
def test_streams_between_a_disk_and_a_service(
    server: ObjectServer, root: str, tmp_path: Path
) -> None:
    remote, local = open_store(root, server.options), LocalStore(str(tmp_path / "t"))
    content = LARGE * 2 + b"end"
    local.put("large", content)
    local.put("small", b"123")
    files = [FileToCopy("large", "d/large", len(content)), FileToCopy("small", "small", 3)]
    assert [copy.how for copy in copy_many(local, files, remote)] == ["stream"] * 2
    assert remote.read("d/large") == content
    back = [FileToCopy("d/large", "back", len(content)), FileToCopy("small", "small back", 3)]
    with _counted() as sent:
        assert [copy.how for copy in copy_many(remote, back, local)] == ["stream"] * 2
    assert local.read("back") == content
    assert (tmp_path / "t/small back").read_bytes() == b"123"
    assert len(content) + 3 <= sent[0].bytes_read < len(content) + _MIB
    with pytest.raises(StorageError, match="has 4 bytes, not 3|has 3 bytes, not 2"):
        copy_file(remote, "small", local, "bad", size_bytes=2)
    assert not (tmp_path / "t/bad").exists()


@_on_s3
def test_other_credentials_are_another_service(server: ObjectServer, root: str) -> None:
    source = open_store(root, server.options)
    source.put("x", b"123")
    target = open_store(f"{root}/other", {**server.options, "anon": "false"})
    with _counted() as sent:
        assert copy_file(source, "x", target, "y", size_bytes=3).how == "stream"
    # Read, write; look at both ends.
    assert (sent[0].heads, sent[0].gets, sent[0].puts) == (2, 1, 1)
    assert copy_file(source, "x", target, "z", size_bytes=3).checksum is not None


@_on_minio
def test_larger_objects_than_one_request_copies_are_copied_by_parts(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_writer, "MAX_COPY_BYTES", 12 * _MIB)
    monkeypatch.setattr(s3_service, "MAX_COPY_BYTES", 12 * _MIB)
    store = open_store(root, server.options)
    store.put("from", LARGE)
    run = UploadingRun(Holder.here("run", SystemClock()), is_leased=False)
    noted = note_uploads(store, run)
    with _counted() as sent:
        copied = copy_file(store, "from", noted, "to", size_bytes=len(LARGE))
    assert copied.how == "server"
    assert store.read("to") == LARGE
    assert sent[0].bytes_read < _MIB
    # The note, begin, three parts, end; the note is deleted again.
    assert (sent[0].heads, sent[0].puts, sent[0].deletes) == (2, 6, 1)
    assert _uploads(store) == []
    assert _names(store) == ["from", "to"]


@_on_minio
def test_a_failed_copy_by_parts_leaves_no_parts(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_writer, "MAX_COPY_BYTES", 12 * _MIB)
    monkeypatch.setattr(s3_service, "MAX_COPY_BYTES", 12 * _MIB)
    store = open_store(root, server.options)
    store.put("from", LARGE)
    real = s3_service.S3Service.call

    def replaced_meanwhile(service: Any, operation: str, **request: Any) -> Any:
        if operation == "upload_part_copy" and request["PartNumber"] == 2:
            store.put("from", LARGE[::-1])
        return real(service, operation, **request)

    monkeypatch.setattr(s3_service.S3Service, "call", replaced_meanwhile)
    with pytest.raises(StorageError, match="replaced while"):
        copy_file(store, "from", store, "to", size_bytes=len(LARGE))
    assert _names(store) == ["from"]
    assert _uploads(store) == []


@_on_s3
def test_an_object_that_is_replaced_before_its_copy(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(root, server.options)
    store.put("from", b"123")
    real = s3_service.S3Service._copy_object

    def late(service: Any, key: str, target: str, **condition: str) -> Any:
        store.put("from", b"456")
        return real(service, key, target, **condition)

    monkeypatch.setattr(s3_service.S3Service, "_copy_object", late)
    # Some services ignore the condition; the checksum shows it then.
    with pytest.raises(StorageError, match="replaced while|the md5 of the copy 'to' differs"):
        copy_file(store, "from", store, "to", size_bytes=3)
    assert _names(store) == ["from"]


@_on_s3
def test_an_interrupted_stream_leaves_no_parts(
    server: ObjectServer, root: str, tmp_path: Path
) -> None:
    remote, local = open_store(root, server.options), LocalStore(str(tmp_path))
    local.put("large", LARGE * 2)

    class Interrupted(LocalStore):
        def read_ranges(self, name: str, ranges: Any) -> list[bytes]:
            if ranges[0][0] >= 32 * _MIB:
                assert len(_uploads(remote)) == 1
                raise KeyboardInterrupt
            return super().read_ranges(name, ranges)

    for size_bytes in (2 * len(LARGE), 2 * len(LARGE) - 1):
        with pytest.raises((KeyboardInterrupt, StorageError)):
            source = Interrupted(str(tmp_path)) if size_bytes % 2 == 0 else local
            copy_file(source, "large", remote, "to", size_bytes=size_bytes)
        assert _uploads(remote) == []
        assert _names(remote) == []
