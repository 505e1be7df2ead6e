"""Outputs that optimize uploads to S3 in parts: whatever ends it, no part stays for good."""

import functools
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from deltactl import Table
from deltactl.errors import DeltactlError, StorageError
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.storage.assembly import open_assembly
from deltactl.storage.network.counts import requests_sent
from deltactl.storage.objects.part_writer import PartWriter
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from tests.support.fault_proxy import Answer, Fault, FaultProxy, Held, Rule, fault_proxy
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers

pytestmark = [
    *UNCLOSED_SESSIONS,
    # MinIO is a service that honours every condition. Moto, which ignores some, proves less.
    pytest.mark.parametrize("server", choose_servers("minio", explored=["moto"]), indirect=True),
]

COPIED = OptimizeOptions(min_row_group_bytes=1 << 20)
_PART = r"\.parquet\?.*partNumber={}\b"
_ROWS = 100_000
# A row; 7 MiB a file, which cannot be compressed: a part of its own, and an output of two parts.
_NOISE_BYTES = 72


@pytest.fixture
def proxy(server: ObjectServer) -> Iterator[FaultProxy]:
    with fault_proxy(server.endpoint, keep_bodies=False) as proxy:
        yield proxy


class Scene:
    """A table of three files, reached through a proxy that knows each upload."""

    def __init__(self, server: ObjectServer, root: str, proxy: FaultProxy) -> None:
        self.proxy, self.root = proxy, root
        self.options = dict(server.at(proxy.endpoint).options)
        self.store = open_store(root, server.options)
        self.store.put_many(_written().items())
        self.table = Table(root, storage_options=self.options)

    def add(self, fault: Fault, method: str, target: str, times: int | None = 1) -> None:
        self.proxy.add(Rule(fault, method, target, times=times))

    def uploads(self) -> list[tuple[str, str]]:
        """Key and id of every upload so far."""
        found = (
            re.search(r"^/([^?]*)\?.*uploadId=([^&]+)", request.target)
            for request in self.proxy.requests
        )
        return sorted({(match[1], match[2]) for match in found if match})

    def parts(self) -> int:
        """Return how many parts the server keeps of all uploads."""
        assert isinstance(self.store, ObjectStore)
        service: Any = self.store._service.file_system
        count = 0
        for key, upload_id in self.uploads():
            bucket, _, name = key.partition("/")
            try:
                answer = service.call_s3("list_parts", Bucket=bucket, Key=name, UploadId=upload_id)
            except FileNotFoundError:  # no such upload
                continue
            count += len(answer.get("Parts", ()))
        return count

    def notes(self) -> list[str]:
        return [info.name for info in self.store.list_from("_deltactl/uploads")]

    def start(self) -> subprocess.Popen[str]:
        typed = [w for pair in self.options.items() for w in ("--storage-option", "=".join(pair))]
        command = ["optimize", self.root, "--min-row-group", "1MiB", *typed]
        return subprocess.Popen(
            [sys.executable, "-m", "deltactl", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_until_second_part(self) -> subprocess.Popen[str]:
        """Start the command; return when it waits for the answer about the second part."""
        self.add(Held(), "PUT", _PART.format(2))
        process = self.start()
        while not self.proxy.find("PUT", _PART.format(2)):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        return process

    def ensure_clean(self) -> None:
        """No part and no note stays of an upload."""
        assert self.parts() == 0
        assert self.notes() == []

    def kill_at_second_part(self) -> None:
        process = self.start_until_second_part()
        process.kill()
        process.communicate()

    def ensure_optimized(self) -> None:
        assert self.table.snapshot().num_files == 1
        ids = self.table.scan().read_all()["id"]
        assert len(ids) == 3 * _ROWS
        assert pc.count_distinct(ids).as_py() == 3 * _ROWS


@functools.cache
def _written() -> Mapping[str, bytes]:
    """The files of a table with three data files, as delta-rs writes them."""
    noise = np.random.default_rng(1).bytes(_ROWS * _NOISE_BYTES)
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_NOISE_BYTES), _ROWS, [None, pa.py_buffer(noise)]
    ).cast(pa.binary())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            ids = range(number * _ROWS, (number + 1) * _ROWS)
            rows = pa.table({"id": pa.array(ids, pa.int64()), "noise": column})
            write_deltalake(folder, rows, mode="append")
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def scene(server: ObjectServer, root: str, proxy: FaultProxy) -> Scene:
    return Scene(server, root, proxy)


def _error(status: int, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return Answer(status, after=False, body=body)


@pytest.mark.parametrize(
    ("method", "target", "options"),
    [
        ("PUT", _PART.format(1), COPIED),
        pytest.param("PUT", _PART.format(2), COPIED, marks=pytest.mark.slow),
        ("PUT", _PART.format(3), COPIED),
        ("POST", r"\.parquet\?uploadId=", COPIED),
        ("POST", r"\.parquet\?uploadId=", OptimizeOptions(rewrite="encode")),
    ],
)
def test_a_failed_upload_leaves_no_parts(
    scene: Scene, method: str, target: str, options: OptimizeOptions
) -> None:
    scene.add(_error(412, "PreconditionFailed"), method, target)
    with pytest.raises(DeltactlError):
        scene.table.optimize(options)
    assert scene.uploads()
    scene.ensure_clean()
    assert scene.table.snapshot().num_files == 3


def test_an_upload_is_noted_before_its_first_part(scene: Scene) -> None:
    scene.table.optimize(COPIED)
    scene.ensure_optimized()
    writes = [r.target for r in scene.proxy.requests if r.method in ("PUT", "POST", "DELETE")]
    (begun,) = [n for n, target in enumerate(writes) if target.endswith("?uploads")]
    (note,) = [n for n, target in enumerate(writes) if "_deltactl/uploads/" in target]
    first = min(n for n, target in enumerate(writes) if "partNumber=" in target)
    assert begun < note < first
    scene.ensure_clean()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupted_run_completes_its_upload(scene: Scene, number: signal.Signals) -> None:
    """As every bin at work is finished after a signal."""
    process = scene.start_until_second_part()
    process.send_signal(number)
    time.sleep(0.2)
    scene.proxy.release()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    scene.ensure_clean()
    scene.ensure_optimized()


def test_a_second_signal_ends_the_process_and_the_next_run_aborts_the_upload(scene: Scene) -> None:
    process = scene.start_until_second_part()
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert scene.parts() >= 2
    scene.table.optimize(COPIED)
    scene.ensure_optimized()
    scene.ensure_clean()


@pytest.mark.parametrize("command", ["optimize", "vacuum"])
def test_the_next_run_aborts_the_upload_of_a_killed_one(scene: Scene, command: str) -> None:
    scene.kill_at_second_part()
    assert scene.parts() >= 2
    (note,) = scene.notes()
    assert note.startswith("_deltactl/uploads/")
    scene.table.optimize(COPIED, dry_run=True)
    assert scene.parts() >= 2, "a dry run changes nothing"
    if command == "vacuum":
        scene.table.vacuum(VacuumOptions())
        assert scene.table.snapshot().num_files == 3
    else:
        scene.table.optimize(COPIED)
        scene.ensure_optimized()
    scene.ensure_clean()


def test_a_missing_right_is_a_warning(scene: Scene) -> None:
    scene.kill_at_second_part()
    scene.add(_error(403, "AccessDenied"), "DELETE", "uploadId=", times=None)
    warnings: list[str] = []
    table = Table(scene.root, storage_options=scene.options, warn=warnings.append)
    table.optimize(COPIED)
    scene.ensure_optimized()
    assert [text for text in warnings if "AbortIncompleteMultipartUpload" in text]
    assert len(scene.notes()) == 1
    assert scene.parts() >= 2


def test_ranges_that_the_service_does_not_copy_are_read_and_sent(scene: Scene) -> None:
    scene.proxy.add(Rule(_error(501, "NotImplemented"), "PUT", _PART.format(r"\d+"), times=1))
    before = requests_sent()
    report = scene.table.optimize(COPIED)
    assert report.rewritten is not None
    assert report.rewritten.groups_encoded == 0
    read = (requests_sent() - before).bytes_read
    assert report.rewritten.bytes_copied < read < 1.03 * report.rewritten.bytes_copied
    scene.ensure_optimized()
    assert scene.parts() == 0


def test_a_later_range_that_the_service_does_not_copy_is_read_and_sent(scene: Scene) -> None:
    scene.add(_error(403, "AccessDenied"), "PUT", _PART.format(2))
    scene.add(_error(503, "SlowDown"), "PUT", _PART.format(2))
    before = requests_sent()
    report = scene.table.optimize(COPIED)
    assert report.rewritten is not None
    read = (requests_sent() - before).bytes_read
    assert read >= report.rewritten.bytes_copied / 3
    scene.ensure_optimized()
    assert scene.parts() == 0


def test_a_source_that_changes_between_its_footer_and_the_copy_is_found(
    scene: Scene, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service compares the tag of the content that the footer was read from."""
    (first, *_) = scene.table.snapshot().files["path"].to_pylist()
    copy = PartWriter.copy

    def copy_late(self: PartWriter, source: str, offset: int, length: int) -> None:
        data = bytearray(scene.store.read(first))
        data[1000] ^= 1
        scene.store.put(first, bytes(data))
        monkeypatch.setattr(PartWriter, "copy", copy)
        copy(self, source, offset, length)

    monkeypatch.setattr(PartWriter, "copy", copy_late)
    with suppress(DeltactlError):
        scene.table.optimize(COPIED)
    copies = [r for r in scene.proxy.requests if "x-amz-copy-source" in r.headers]
    assert all(request.headers["x-amz-copy-source-if-match"] for request in copies)
    if server.kind != "moto":  # it ignores the condition
        assert copies[0].status == 412
        assert scene.table.snapshot().num_files == 3
        assert scene.parts() == 0


def test_bytes_that_fill_up_parts_are_of_the_content_that_the_footer_was_read_from(
    scene: Scene,
) -> None:
    """They pass the client: their reads have the condition that copies have."""
    store = open_store(scene.root, scene.options)
    size = 7 << 20
    store.put("source", b"a" * size)
    store.read_ranges("source", [(size - 8, 8)])  # the footer
    scene.store.put("source", b"b" * size)
    assert store.read_ranges("source", [(0, 8)]) == [b"b" * 8]  # an index, or a page
    out = open_assembly(store, "made")
    out.write(b"magic")
    out.copy("source", 0, 6 << 20)
    with pytest.raises(StorageError):
        out.close()
    reads = [r for r in scene.proxy.requests if r.method == "GET" and "if-match" in r.headers]
    assert {request.status for request in reads} == {412}
    assert scene.store.stat_many(["made"]) == [None]
    assert scene.parts() == 0
