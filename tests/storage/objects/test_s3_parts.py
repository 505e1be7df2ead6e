"""Parts of an upload to S3: sent or copied one after the other, and completed in this order."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deltactl.storage.objects.s3_parts import S3Parts
from deltactl.storage.objects.services import CannotCopyError, Entry


class _Service:
    """A service that answers each request, or fails as the test says."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.log: list[str] = []
        self.completed: list[dict[str, Any]] = []

    def call(self, operation: str, **request: Any) -> Any:
        self.log.append(operation)
        if operation == "complete_multipart_upload":
            self.completed = request["MultipartUpload"]["Parts"]
            return {}
        number = request["PartNumber"]
        if operation == "upload_part":
            return {"ETag": f"sent {number}"}
        assert request["CopySourceIfMatch"] == f"tag of {request['CopySource']['Key']}"
        if self.failure is not None:
            raise self.failure
        return {"CopyPartResult": {"ETag": f"copied {number}"}}

    def etag_of(self, key: str) -> str:
        return f"tag of {key.partition('/')[2]}"

    def stat(self, key: str) -> Entry | None:
        raise AssertionError("the upload is there")

    def begin_upload(self, key: str) -> tuple[Mapping[str, Any], Callable[[], None]]:
        return {"UploadId": "1"}, lambda: self.log.append("ended")

    def abort_upload(self, key: str, upload_id: str) -> None:
        self.log.append("aborted")


def test_parts_are_completed_in_order() -> None:
    service = _Service()
    parts = S3Parts(service, "bucket/made")
    parts.copy("bucket/a", 0, 10)
    parts.copy("bucket/b", 10, 5)
    parts.add(b"footer")
    parts.finish()
    tags = [(part["PartNumber"], part["ETag"]) for part in service.completed]
    assert tags == [(1, "copied 1"), (2, "copied 2"), (3, "sent 3")]
    assert service.log[-1] == "ended"


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(PermissionError("no copies"), CannotCopyError), (OSError("refused"), OSError)],
)
def test_a_copy_that_fails_is_no_part(failure: Exception, raised: type[Exception]) -> None:
    service = _Service(failure)
    parts = S3Parts(service, "bucket/made")
    with pytest.raises(raised):
        parts.copy("bucket/a", 0, 10)
    parts.add(b"the bytes of the range")
    parts.abandon()
    assert service.log == ["upload_part_copy", "upload_part", "aborted", "ended"]
