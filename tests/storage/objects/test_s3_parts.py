"""Parts of an upload to S3: which are in progress at once, in what order they are completed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deltactl.storage.objects import s3_parts
from deltactl.storage.objects.s3_parts import S3Parts
from deltactl.storage.objects.services import CannotCopyError, Entry

_AT_ONCE = 4


class _Service:
    """A service that answers a copy when the test lets it."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.started: list[int] = []
        self.ended: list[int] = []
        self.log: list[str] = []
        self.completed: list[dict[str, Any]] = []
        self.fails: set[int] = set()
        self.refuses = self.holds_first = False
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()

    def call(self, operation: str, **request: Any) -> Any:
        return self.call_anew(operation, lambda: request)

    def call_anew(self, operation: str, request: Callable[[], Mapping[str, Any]]) -> Any:
        made = request()
        if operation == "complete_multipart_upload":
            self.completed = made["MultipartUpload"]["Parts"]
            return {}
        number = made["PartNumber"]
        if operation == "upload_part":
            return {"ETag": f"sent {number}"}
        assert made["CopySourceIfMatch"] == f"tag of {made['CopySource']['Key']}"
        self._copy(number)
        return {"CopyPartResult": {"ETag": f"copied {number}"}}

    def _copy(self, number: int) -> None:
        with self._lock:
            self.started.append(number)
            self._running += 1
            self.most = max(self.most, self._running)
        if self.refuses:
            raise PermissionError("no copies")
        if number in self.fails:
            with self._lock:
                self._running -= 1
            raise OSError("refused")
        if number > 1 or self.holds_first:
            assert self.may_answer.wait(60)
        with self._lock:
            self._running -= 1
            self.ended.append(number)

    def etag_of(self, key: str) -> str:
        return f"tag of {key.partition('/')[2]}"

    def read_range_as_noted(self, key: str, offset: int, length: int) -> bytes:
        raise AssertionError("nothing is read")

    def stat(self, key: str) -> Entry | None:
        raise AssertionError("the upload is there")

    def begin_upload(self, key: str) -> tuple[Mapping[str, Any], Callable[[], None]]:
        return {"UploadId": "1"}, lambda: self.log.append("ended")

    def abort_upload(self, key: str, upload_id: str) -> None:
        self.log.append(f"aborted after {sorted(self.ended)}")


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bucket is known."""
    monkeypatch.setattr(s3_parts, "_copied_to", set())


def _start(service: _Service, copies: int) -> tuple[S3Parts, threading.Thread]:
    """Add copies in a thread, because a call waits when too many are in progress."""
    parts = S3Parts(service, "bucket/made")

    def add() -> None:
        for number in range(copies):
            parts.copy(f"bucket/source {number}", 0, 10)
        parts.add(b"footer")
        parts.finish()

    thread = threading.Thread(target=add)
    thread.start()
    return parts, thread


def test_parts_are_in_order_and_few_are_copied_at_once() -> None:
    service = _Service()
    _, thread = _start(service, 3 * _AT_ONCE)
    while len(service.started) < 1 + _AT_ONCE:
        assert thread.is_alive()
    service.may_answer.set()
    thread.join(60)
    assert service.most == _AT_ONCE
    assert [part["PartNumber"] for part in service.completed] == list(range(1, 3 * _AT_ONCE + 2))
    tags = [part["ETag"] for part in service.completed]
    assert tags[:2] == ["copied 1", "copied 2"]
    assert tags[-1] == f"sent {3 * _AT_ONCE + 1}"
    assert service.log == ["ended"]


def test_an_abort_waits_for_copies_in_progress_and_starts_no_others() -> None:
    """A part that arrives after the upload was aborted can stay."""
    service = _Service()
    service.fails = {3}
    parts = S3Parts(service, "bucket/made")
    for number in range(3):
        parts.copy(f"bucket/source {number}", 0, 10)
    while len(service.started) < 3:
        pass
    threading.Timer(0.05, service.may_answer.set).start()
    with pytest.raises(OSError, match="refused"):
        parts.finish()
    parts.abandon()
    assert service.log == ["aborted after [1, 2]", "ended"]
    assert not service.completed


def test_a_failure_is_raised_before_more_is_sent() -> None:
    service = _Service()
    service.fails = {2}
    parts = S3Parts(service, "bucket/made")
    for number in range(2):
        parts.copy(f"bucket/source {number}", 0, 10)
    with pytest.raises(OSError, match="refused"):
        while True:  # until the answer is there
            parts.add(b"more")
    parts.abandon()
    assert service.log == ["aborted after [1]", "ended"]


def test_only_the_first_copy_to_a_bucket_is_waited_for() -> None:
    service = _Service()
    first = S3Parts(service, "bucket/first")
    first.copy("bucket/source", 0, 10)
    assert service.ended == [1]
    first.finish()
    service.holds_first = True
    second = S3Parts(service, "bucket/second")
    second.copy("bucket/source", 0, 10)  # would wait for ever
    assert service.ended == [1]
    service.may_answer.set()
    second.finish()
    assert service.ended == [1, 1]


def test_a_service_that_copies_nothing_is_not_asked_again() -> None:
    service = _Service()
    service.refuses = True
    parts = S3Parts(service, "bucket/made")
    for _ in range(2):
        with pytest.raises(CannotCopyError):
            parts.copy("bucket/source", 0, 10)
    assert service.started == [1]
    parts.abandon()
