"""Send requests to Amazon S3 and compatible stores, with s3fs.

Most requests are calls of the file system's own client (``call_s3``): the methods of s3fs would
first request the size, check for a directory, or list from the first key.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from aiobotocore.credentials import AioCredentials
from botocore.credentials import ReadOnlyCredentials
from fsspec.asyn import sync
from fsspec.config import apply_config
from s3fs import S3FileSystem

from deltactl.errors import StorageError
from deltactl.storage.classify import service_code
from deltactl.storage.file_copies import StoredFacts
from deltactl.storage.network.traffic import Traffic, s3_http_session, s3_session
from deltactl.storage.objects.part_writer import MAX_COPY_BYTES, PartWriter
from deltactl.storage.objects.s3_parts import S3Parts, copy_refusals
from deltactl.storage.objects.services import (
    NO_CACHES,
    CannotCopyError,
    Entry,
    ObjectService,
    split_directory,
)
from deltactl.storage.vended import Current, take_vended

_CONNECTIONS: Final = 32  # botocore has ten, fewer than the requests at one time
_PAGE_KEYS: Final = 1000  # the most that a request may ask for
_DELETE_ATTEMPTS: Final = 5
_VERSIONS_LISTED: Final = 100
_NOTED_ETAGS: Final = 4096  # a long run must not keep one for each file of a table
_NO_CAUSE: Final = ("301", "400", "403")  # these statuses have several causes
# A status instead of a code, such as NoSuchBucket: the answer may be of a proxy.
_NOT_OF_S3: Final = frozenset({"403", "404", "407"})
# For these codes, the other keys of a batch of deletes can have succeeded.
_BUSY_CODES: Final = frozenset({
    "InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown",
})  # fmt: skip


class S3Files(S3FileSystem):  # type: ignore[misc]
    """s3fs without retries: only `RetryPolicy` retries, and never a conditional put."""

    retries = 1

    def split_path(self, path: str) -> tuple[str, str, None]:
        """Return bucket and name. s3fs would drop ``?versionId=`` and the text after it."""
        bucket, _, name = path.partition("/")
        return bucket, name, None


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Connect with options of the library; see ``Provider.module``."""
    # Now, so that the lines below see the options in fsspec's own files.
    settings = apply_config(S3Files, settings)
    vended = take_vended(settings, "key", "secret", "token", "anon", "profile")
    # Other programs for Delta tables read AWS_REGION, botocore only AWS_DEFAULT_REGION.
    region = settings.pop("region", None) or os.environ.get("AWS_REGION")
    if region:
        nested = settings.get("client_kwargs") or {}
        settings["client_kwargs"] = {"region_name": region, **nested}
    settings["config_kwargs"] = {
        "max_pool_connections": _CONNECTIONS,
        **(settings.get("config_kwargs") or {}),
        # After the options of the user, so that these do not turn retries on: only `RetryPolicy`
        # sends a request again, and never a conditional put (ADR 14).
        "retries": {"max_attempts": 0},
        "http_session_cls": s3_http_session(),
    }
    settings["session"] = s3_session(settings.pop("profile", None), traffic)
    if vended is not None:
        settings["session"]._credentials = VendedS3(vended)
    return S3Service(S3Files(**{**settings, **NO_CACHES}))


class VendedS3(AioCredentials):  # type: ignore[misc]
    """Credentials that are looked up for each request."""

    def __init__(self, current: Current) -> None:
        """Sign with what ``current`` returns."""
        super().__init__("", "", method="catalog")
        self._current = current

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return the credentials for one request; perhaps a catalog is asked for new ones."""
        # A request to the catalog would stop the event loop, with all other requests.
        found = await asyncio.to_thread(self._current)
        return ReadOnlyCredentials(found["key"], found["secret"], found.get("token"))


class S3Service(ObjectService):
    """Amazon S3 and compatible stores.

    Source: Amazon S3 API reference, GetObject, ListObjectsV2 and DeleteObjects.
    """

    # The most that one request may have.
    delete_batch: int = 1000
    copies_ranges: bool = True
    keeps_parts: bool = True
    old_versions_term = "noncurrent versions"

    def __init__(self, file_system: S3Files) -> None:
        """Send requests with the client of a file system."""
        super().__init__(file_system)
        self._etags: dict[str, str] = {}

    def find_endpoint(self) -> str:
        """Return the client's endpoint, from options, variables and configuration files."""
        return str(self._fs.s3.meta.endpoint_url)

    @property
    def server(self) -> str:
        """Return the endpoint; one for all regions of AWS, which have different buckets."""
        return re.sub(r".*\.(amazonaws\.com(?:\.cn)?)", r"\1", super().server)

    def key_of(self, uri: str) -> str:
        """Return bucket and name of an address."""
        return uri.partition("://")[2].rstrip("/")

    def read(self, key: str) -> bytes:
        """Return a whole object with one request; s3fs would first request its size."""
        return self._ask(key)[0]

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Return some bytes of an object."""
        return self._ask(key, f"bytes={offset}-{offset + length - 1}")[0]

    def read_range_as_noted(self, key: str, offset: int, length: int) -> bytes:
        """Return some bytes if the content still has the ETag of ``etag_of``; else raise."""
        wanted = f"bytes={offset}-{offset + length - 1}"
        return self._ask(key, wanted, if_match=self.etag_of(key))[0]

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes, and the size of the object from the same answer."""
        data, entry = self.read_end(key, length)
        return data, entry["size"]

    def read_end(self, key: str, length: int) -> tuple[bytes, Entry]:
        """Return the last bytes, and facts from the same answer; raise if there is no object."""
        try:
            return self._ask(key, f"bytes=-{length}")
        except Exception:
            empty = self._empty(key)
            if empty is None:
                raise
            return b"", empty

    def _ask(
        self,
        key: str,
        wanted: str | None = None,
        if_match: str | None = None,
        version_id: str | None = None,
    ) -> tuple[bytes, Entry]:
        asked = {"Range": wanted, "IfMatch": if_match, "VersionId": version_id}
        conditions = {name: value for name, value in asked.items() if value is not None}
        found: tuple[bytes, Entry] = self._retry.call(
            lambda: sync(self._fs.loop, self._get, key, conditions)
        )
        return found

    async def _get(self, key: str, conditions: Mapping[str, str]) -> tuple[bytes, Entry]:
        bucket, _, name = key.partition("/")
        answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=name, **conditions)
        try:
            data = await answer["Body"].read()
        finally:
            answer["Body"].close()
        place, _, total = answer.get("ContentRange", "").rpartition("/")
        size = int(total) if total.isdigit() else len(data)
        if place.endswith(f"-{size - 1}"):
            self._note_etag(key, answer.get("ETag"))
        return data, _entry(key, size, self._time_in(answer))

    def _note_etag(self, key: str, etag: str | None) -> None:
        """Store the ETag of the content whose end (footer) was read: copies require this ETag."""
        if etag is None:
            return
        while len(self._etags) >= _NOTED_ETAGS:
            self._etags.pop(next(iter(self._etags)), None)
        self._etags[key] = etag

    def etag_of(self, key: str) -> str:
        """Return the ETag of the content whose end was read last; if none, the current ETag."""
        if key not in self._etags:
            self._note_etag(key, self._head(key)["ETag"])
        return self._etags[key]

    def download(self, key: str, path: str) -> None:
        """Download a whole object. After an error, start again, so that versions do not mix."""
        # With more than one, s3fs would send several requests, for parts of several versions.
        self._retry.call(lambda: self._fs.get_file(key, path, max_concurrency=1))

    def stat(self, key: str) -> Entry | None:
        """Return facts of an object with one request; s3fs would also check for a directory."""
        try:
            found = self._head(key)
        except FileNotFoundError:
            return None
        return {**found, **_entry(key, found["ContentLength"], self._time_in(found))}

    def _head(self, key: str) -> Mapping[str, Any]:
        """Return the headers of an object."""
        bucket, _, name = key.partition("/")
        try:
            headers: Mapping[str, Any] = self.call("head_object", Bucket=bucket, Key=name)
        except OSError as error:
            # The answer has no body, so no code: wrong and expired keys look like a missing right.
            if service_code(error.__cause__) in _NO_CAUSE:
                self.read_range(key, 0, 1)
            raise
        return headers

    def facts_in(self, entry: Entry) -> StoredFacts:
        """Return size and ETag; the ETag is an MD5 unless the object has parts or another key."""
        return _facts(entry["size"], entry["ETag"], entry)

    def copy_whole(self, key: str, target: str, before: StoredFacts) -> StoredFacts:
        """Copy an object if it still has this ETag; in parts if one request cannot copy it."""
        try:
            with copy_refusals():
                if before.size_bytes > MAX_COPY_BYTES:
                    self._copy_by_parts(key, target, before)
                    return self.facts_of_copy(target)
                answer = self._copy_object(key, target, CopySourceIfMatch=before.version)
        except OSError as error:
            if service_code(error.__cause__) == "PreconditionFailed":
                raise StorageError("it was replaced while it was copied") from error
            raise
        after = _facts(before.size_bytes, answer["CopyObjectResult"]["ETag"], answer)
        # The same MD5 means the same size; after any other answer, request the size.
        same = after.checksums and after.checksums == before.checksums
        return after if same else self.facts_of_copy(target)

    def _copy_object(self, key: str, target: str, **condition: str) -> Mapping[str, Any]:
        bucket, _, name = key.partition("/")
        new_bucket, _, new_name = target.partition("/")
        answer: Mapping[str, Any] = self.call(
            "copy_object",
            Bucket=new_bucket,
            Key=new_name,
            CopySource={"Bucket": bucket, "Key": name},
            **condition,
        )
        return answer

    def _copy_by_parts(self, key: str, target: str, before: StoredFacts) -> None:
        # If the service refuses a part, the caller copies the whole object in another way.
        def read(source: str, offset: int, length: int) -> bytes:
            raise CannotCopyError("the service copies no parts")

        def put(data: bytes) -> None:
            raise CannotCopyError("the service copies no parts")

        self._note_etag(key, before.version)
        assembly = PartWriter(put, lambda: S3Parts(self, target), read)
        try:
            assembly.copy(key, 0, before.size_bytes)
            assembly.close()
        except BaseException:
            assembly.discard()
            raise

    def begin(self, key: str) -> S3Parts:
        """Begin a multipart upload that retries each part separately."""
        return S3Parts(self, key)

    def begin_upload(self, key: str) -> tuple[Mapping[str, Any], Callable[[], None]]:
        """Begin a multipart upload.

        Return the parameters that identify the upload (bucket, key, id), and a function that the
        caller must call when the upload has ended.
        """
        bucket, _, name = key.partition("/")
        place = {"Bucket": bucket, "Key": name}
        place["UploadId"] = self.call("create_multipart_upload", **place)["UploadId"]
        if self._on_upload is None:
            return place, lambda: None
        try:
            return place, self._on_upload(key, place["UploadId"])
        except BaseException:
            self.abort_upload(key, place["UploadId"])
            raise

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Delete the parts of an upload; do nothing if the upload does not exist."""
        bucket, _, name = key.partition("/")
        place = {"Bucket": bucket, "Key": name, "UploadId": upload_id}
        with suppress(FileNotFoundError):
            self.call("abort_multipart_upload", **place)

    def create(self, key: str, data: bytes) -> None:
        """Create a whole object; fail if the name exists, because of ``If-None-Match``.

        s3fs would send large content in parts, for which some stores ignore the condition.
        """
        bucket, _, name = key.partition("/")
        # Not `call`: a conditional put is sent once.
        self._fs.call_s3("put_object", Bucket=bucket, Key=name, Body=data, IfNoneMatch="*")

    def copy(self, key: str, target: str) -> None:
        """Copy an object; in parts if one request cannot copy it."""
        before = self.facts(key)
        if before is None:
            raise FileNotFoundError(key)
        if before.size_bytes > MAX_COPY_BYTES:
            self._copy_by_parts(key, target, before)
            return
        self._copy_object(key, target)

    def call(self, operation: str, **request: Any) -> Any:
        """Send a request that may be sent twice."""
        return self._retry.call(lambda: self._fs.call_s3(operation, **request))

    def pages(self, directory: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Yield pages of up to 1,000 keys."""
        bucket, prefix = split_directory(directory)
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": _PAGE_KEYS}
        if start:
            # StartAfter excludes its own key. So a shorter key is used, which adds a few keys at
            # most.
            request["StartAfter"] = prefix + start[:-1]
        if not deep:
            request["Delimiter"] = "/"
        while True:
            answer = self._page(request)
            yield [
                *(
                    {"name": f"{bucket}/{found['Prefix']}".removesuffix("/"), "type": "directory"}
                    for found in answer.get("CommonPrefixes") or ()
                ),
                *(
                    {
                        "name": f"{bucket}/{found['Key']}",
                        "type": "file",
                        "size": found["Size"],
                        # Some stores give milliseconds here, but only seconds when asked for the
                        # object itself.
                        "LastModified": found["LastModified"].replace(microsecond=0),
                        "StorageClass": found.get("StorageClass"),
                    }
                    for found in answer.get("Contents") or ()
                ),
            ]
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def _page(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a page of a listing, which S3 also has for a missing directory."""
        try:
            answer: Mapping[str, Any] = self.call("list_objects_v2", **request)
        except OSError as error:
            if service_code(error.__cause__) in _NOT_OF_S3:
                raise self._no_endpoint() from error
            raise
        if answer.keys() <= {"ResponseMetadata"}:
            raise self._no_endpoint()
        return answer

    def _time_in(self, answer: Mapping[str, Any]) -> datetime:
        if "LastModified" not in answer:
            raise self._no_endpoint()
        found: datetime = answer["LastModified"]
        return found

    def _no_endpoint(self) -> StorageError:
        return StorageError(
            f"{self.find_endpoint()} did not answer like S3",
            hint="Check AWS_ENDPOINT_URL or the storage option endpoint_url.",
        )

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """Delete with one request, and retry the keys that failed with a transient error."""
        failed: dict[str, Exception] = {}
        left = list(keys)
        for failures in range(_DELETE_ATTEMPTS):
            if failures:
                self._retry.pause(failures - 1)
            refused = self._delete(left)
            left = [key for key, (code, _) in refused.items() if code in _BUSY_CODES]
            failed |= {key: _refused(*why) for key, why in refused.items() if key not in left}
            if not left:
                return failed
        return failed | {key: _refused(*refused[key]) for key in left}

    def _delete(self, keys: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
        """Return code and message of each key that was not deleted; the others were deleted."""
        bucket = keys[0].partition("/")[0]
        names = [{"Key": key.partition("/")[2]} for key in keys]
        answer = self.call(
            "delete_objects", Bucket=bucket, Delete={"Objects": names, "Quiet": True}
        )
        return {
            f"{bucket}/{found['Key']}": (found.get("Code"), found.get("Message"))
            for found in answer.get("Errors") or ()
        }

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Remove the delete markers that hide the newest version.

        Source: Amazon S3 user guide, "Working with delete markers".
        """
        bucket, _, name = key.partition("/")
        while True:
            # A key sorts before all longer keys that begin with it. Its newest version comes first.
            answer = self.call(
                "list_object_versions", Bucket=bucket, Prefix=name, MaxKeys=_VERSIONS_LISTED
            )
            kept = [v for v in answer.get("Versions") or () if v["Key"] == name]
            markers = [m for m in answer.get("DeleteMarkers") or () if m["Key"] == name]
            hiding = [marker for marker in markers if marker["IsLatest"]]
            if not kept or not hiding or dry_run:
                return bool(kept)
            # There can be another marker below it, so look again after this.
            marker = hiding[0]["VersionId"]
            self.call("delete_object", Bucket=bucket, Key=name, VersionId=marker)

    def old_versions(self, directory: str) -> Iterator[tuple[Entry, str]]:
        """Yield all versions that are not the latest, also of objects with a delete marker."""
        bucket, prefix = split_directory(directory)
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        while True:
            answer = self.call("list_object_versions", **request)
            for found in answer.get("Versions") or ():
                if not found["IsLatest"]:
                    key = f"{bucket}/{found['Key']}"
                    entry = _entry(key, found["Size"], found["LastModified"])
                    yield entry, found["VersionId"]
            if not answer.get("IsTruncated"):
                return
            for name in ("KeyMarker", "VersionIdMarker"):
                request[name] = answer[f"Next{name}"]

    def read_old_range(self, key: str, version_id: str, offset: int, length: int) -> bytes:
        """Return some bytes of an old version of an object."""
        wanted = f"bytes={offset}-{offset + length - 1}"
        return self._ask(key, wanted, version_id=version_id)[0]


def _entry(key: str, size: int, modified: datetime) -> Entry:
    return {"name": key, "type": "file", "size": size, "LastModified": modified}


def _facts(size_bytes: int, etag: str, answer: Mapping[str, Any]) -> StoredFacts:
    """Return the facts of an object from its ETag and its encryption."""
    digest = etag.strip('"')
    is_md5 = "-" not in digest and answer.get("ServerSideEncryption") in (None, "AES256")
    is_md5 = is_md5 and "SSECustomerAlgorithm" not in answer
    return StoredFacts(size_bytes, {"md5": digest} if is_md5 else {}, etag)


def _refused(code: str | None, message: str | None) -> Exception:
    text = f"{code or 'refused'}: {message or 'the store gave no reason'}"
    return PermissionError(text) if code == "AccessDenied" else OSError(text)
