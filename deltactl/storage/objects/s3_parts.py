"""A multipart upload to Amazon S3 that copies several byte ranges at the same time.

Source: Amazon S3 API reference, UploadPart and UploadPartCopy. Numbers order the parts; the service
accepts them in any order.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, BinaryIO, Final, Protocol

from deltactl.storage.objects.services import CannotCopyError, Entry
from deltactl.storage.parallel import PARALLEL_REQUESTS

NO_COPIES: Final = frozenset({"NotImplemented", "MethodNotAllowed", "AccessDenied"})
"""Error codes of services that do not copy parts."""

_COPIES_AT_ONCE: Final = 4
_READ_BYTES: Final = 16 << 20
# The uploads of all bins of this process share this semaphore.
_slots = threading.BoundedSemaphore(PARALLEL_REQUESTS)
# Buckets to which a range was copied. Another service can have a bucket of the same name and refuse
# copies. Then more of its first copies are refused, and their bytes are read and sent.
_copied_to: set[str] = set()

_Part = dict[str, Any]


class _Service(Protocol):
    """The methods of ``S3Service`` that an upload uses."""

    def call(self, operation: str, **request: Any) -> Any: ...

    def call_anew(self, operation: str, request: Callable[[], Mapping[str, Any]]) -> Any: ...

    def etag_of(self, key: str) -> str: ...

    def read_range_as_noted(self, key: str, offset: int, length: int) -> bytes: ...

    def stat(self, key: str) -> Entry | None: ...

    def begin_upload(self, key: str) -> tuple[Mapping[str, Any], Callable[[], None]]: ...

    def abort_upload(self, key: str, upload_id: str) -> None: ...


class S3Parts:
    """A multipart upload; implements ``part_writer.CopyingUpload``.

    The first copy to a bucket shows whether the service copies ranges. After it, up to four copies
    are in progress at the same time. If one of them fails, a later call raises the error.
    """

    def __init__(self, service: _Service, key: str) -> None:
        """Begin an upload to a key."""
        self._service, self._key = service, key
        self._place, self._ended = service.begin_upload(key)
        self._parts: list[_Part | Future[_Part]] = []
        self._size_bytes = 0
        self._bucket = key.partition("/")[0]
        self._copies = True
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[_Part]] = deque()

    def add(self, data: bytes) -> None:
        """Send the next part; see ``Upload.add``."""
        self._raise_failures()
        self._parts.append(self._send(len(self._parts) + 1, lambda: data))
        self._size_bytes += len(data)

    def copy(self, source: str, offset: int, length: int) -> None:
        """Add a range as the next part; see ``CopyingUpload.copy``."""
        if not self._copies:
            raise CannotCopyError("the service refused an earlier copy")
        number, etag = len(self._parts) + 1, self._service.etag_of(source)
        if self._bucket not in _copied_to:
            try:
                self._parts.append(self._copy(number, source, (offset, length), etag))
            except CannotCopyError:
                self._copies = False
                raise
            _copied_to.add(self._bucket)
        else:
            self._raise_failures(at_once=_COPIES_AT_ONCE)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_COPIES_AT_ONCE, thread_name_prefix="deltactl-part")
            part = self._pool.submit(self._copy_or_send, number, source, (offset, length), etag)
            self._waiting.append(part)
            self._parts.append(part)
        self._size_bytes += length

    def finish(self) -> None:
        """Create the object; see ``Upload.finish``."""
        parts = [part.result() if isinstance(part, Future) else part for part in self._parts]
        self._stop()
        try:
            self._service.call(
                "complete_multipart_upload", **self._place, MultipartUpload={"Parts": parts}
            )
        except FileNotFoundError:
            # The upload does not exist: a first attempt may have completed it, and the answer was
            # lost.
            found = self._service.stat(self._key)
            if found is None or found["size"] != self._size_bytes:
                raise
        with suppress(Exception):  # the object is complete; only the record remains
            self._ended()

    def abandon(self) -> None:
        """Discard the parts; see ``Upload.abandon``."""
        # A part that arrives after the upload was aborted can stay.
        self._stop()
        with suppress(Exception):
            self._service.abort_upload(self._key, self._place["UploadId"])
            self._ended()

    def _stop(self) -> None:
        """Start no more copies, and wait for the copies that are in progress."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _raise_failures(self, *, at_once: int | None = None) -> None:
        """Raise the error of a failed copy. Wait until fewer than ``at_once`` copies run."""
        while True:
            left = deque(part for part in self._waiting if not part.done())
            for part in self._waiting:
                if part.done():
                    part.result()
            self._waiting = left
            if at_once is None or len(left) < at_once:
                return
            wait(left, return_when=FIRST_COMPLETED)

    def _send(self, number: int, body: Callable[[], bytes | BinaryIO]) -> _Part:
        answer = self._service.call_anew(
            "upload_part", lambda: {**self._place, "PartNumber": number, "Body": body()}
        )
        return _describe(number, answer)

    def _copy(self, number: int, source: str, range_: tuple[int, int], etag: str) -> _Part:
        bucket, _, name = source.partition("/")
        offset, length = range_
        try:
            with _slots:
                answer = self._service.call(
                    "upload_part_copy",
                    **self._place,
                    PartNumber=number,
                    CopySource={"Bucket": bucket, "Key": name},
                    CopySourceRange=f"bytes={offset}-{offset + length - 1}",
                    CopySourceIfMatch=etag,
                )
        except (PermissionError, NotImplementedError) as error:
            raise CannotCopyError(str(error)) from error
        except OSError as error:
            if error_code(error) not in NO_COPIES:
                raise
            raise CannotCopyError(str(error)) from error
        return _describe(number, answer["CopyPartResult"])

    def _copy_or_send(self, number: int, source: str, range_: tuple[int, int], etag: str) -> _Part:
        """Copy a range. If the service refuses, read the range and send it in pieces."""
        try:
            return self._copy(number, source, range_, etag)
        except CannotCopyError:
            self._copies = False

        offset, length = range_
        with tempfile.TemporaryFile() as file:
            for start in range(offset, offset + length, _READ_BYTES):
                size = min(_READ_BYTES, offset + length - start)
                file.write(self._service.read_range_as_noted(source, start, size))

            def body() -> BinaryIO:
                file.seek(0)
                return file

            return self._send(number, body)


def _describe(number: int, answer: Mapping[str, Any]) -> _Part:
    """Return a part in the form that the request that completes the upload needs."""
    checksums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
    checksums.pop("ChecksumType", None)
    return {"PartNumber": number, "ETag": answer["ETag"], **checksums}


def error_code(error: OSError) -> str:
    """Return the code in the answer of the service; an empty string if there is none."""
    answer = getattr(error.__cause__, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""
