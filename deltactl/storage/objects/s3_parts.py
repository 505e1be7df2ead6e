"""A multipart upload to Amazon S3 that also copies byte ranges of other objects.

Source: Amazon S3 API reference, UploadPart and UploadPartCopy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from deltactl.storage.classify import service_code
from deltactl.storage.objects.services import CannotCopyError, Entry

_NO_COPIES: Final = frozenset({"NotImplemented", "MethodNotAllowed", "AccessDenied"})

_Part = dict[str, Any]


class _Service(Protocol):
    """The methods of ``S3Service`` that an upload uses."""

    def call(self, operation: str, **request: Any) -> Any: ...

    def etag_of(self, key: str) -> str: ...

    def stat(self, key: str) -> Entry | None: ...

    def begin_upload(self, key: str) -> tuple[Mapping[str, Any], Callable[[], None]]: ...

    def abort_upload(self, key: str, upload_id: str) -> None: ...


class S3Parts:
    """A multipart upload; implements ``part_writer.CopyingUpload``."""

    def __init__(self, service: _Service, key: str) -> None:
        """Begin an upload to a key."""
        self._service, self._key = service, key
        self._place, self._ended = service.begin_upload(key)
        self._parts: list[_Part] = []
        self._size_bytes = 0

    def add(self, data: bytes) -> None:
        """Send the next part; see ``Upload.add``."""
        number = len(self._parts) + 1
        answer = self._service.call("upload_part", **self._place, PartNumber=number, Body=data)
        self._append(number, answer, len(data))

    def copy(self, source: str, offset: int, length: int) -> None:
        """Add a range as the next part; see ``CopyingUpload.copy``."""
        bucket, _, name = source.partition("/")
        number, etag = len(self._parts) + 1, self._service.etag_of(source)
        with copy_refusals():
            answer = self._service.call(
                "upload_part_copy",
                **self._place,
                PartNumber=number,
                CopySource={"Bucket": bucket, "Key": name},
                CopySourceRange=f"bytes={offset}-{offset + length - 1}",
                CopySourceIfMatch=etag,
            )
        self._append(number, answer["CopyPartResult"], length)

    def _append(self, number: int, answer: Mapping[str, Any], size_bytes: int) -> None:
        self._parts.append(_describe(number, answer))
        self._size_bytes += size_bytes

    def finish(self) -> None:
        """Create the object; see ``Upload.finish``."""
        try:
            self._service.call(
                "complete_multipart_upload", **self._place, MultipartUpload={"Parts": self._parts}
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
        with suppress(Exception):
            self._service.abort_upload(self._key, self._place["UploadId"])
            self._ended()


def _describe(number: int, answer: Mapping[str, Any]) -> _Part:
    """Return a part in the form that the request that completes the upload needs."""
    checksums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
    # Answers have this member, but the request that completes the upload must not.
    checksums.pop("ChecksumType", None)
    return {"PartNumber": number, "ETag": answer["ETag"], **checksums}


@contextmanager
def copy_refusals() -> Iterator[None]:
    """Convert the error of a service that copies no objects or parts to ``CannotCopyError``."""
    try:
        yield
    except (PermissionError, NotImplementedError) as error:
        raise CannotCopyError(str(error)) from error
    except OSError as error:
        if service_code(error.__cause__) not in _NO_COPIES:
            raise
        raise CannotCopyError(str(error)) from error
