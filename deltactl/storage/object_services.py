"""What kinds of object stores do beyond fsspec's common calls.

Listings begin at a key and come page by page, so that a log of a million commits is never listed
whole and a table's tree never held; many objects are deleted in one request where that exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from fsspec.asyn import sync

from deltactl.errors import StorageError
from deltactl.storage.errors import NO_BUCKET
from deltactl.storage.part_writer import PartWriter
from deltactl.storage.patience import Patience

_CHUNK_BYTES: Final = 1 << 20
_DELETE_ATTEMPTS: Final = 5
# One key of many may be refused while the others go.
_BUSY_CODES: Final = frozenset({
    "InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown",
})  # fmt: skip

Entry = Mapping[str, Any]
"""``name`` (bucket and key), ``type`` (file or directory), ``size``, and a time of modification."""


class ObjectService(Protocol):
    """Listing and deleting by key, which is the bucket, a slash and the object's name."""

    @property
    def delete_batch(self) -> int:
        """How many keys one call of ``delete`` takes."""
        ...

    def key_of(self, uri: str) -> str:
        """The key that an absolute address names.

        Raises:
            StorageError: it names a place that this service does not reach.
        """
        ...

    def read(self, key: str) -> bytes:
        """A whole object, in one request."""
        ...

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Some bytes of an object; a range that begins past its end may be an error."""
        ...

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes of an object, and the size of all of it."""
        ...

    def download(self, key: str, path: str) -> None:
        """A whole object into a local file, in one request where its size allows."""
        ...

    def stat(self, key: str) -> Entry | None:
        """Facts of an object; ``None`` where there is none, or only a folder."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole object."""
        ...

    def create(self, key: str, data: bytes, part_bytes: int | None = None) -> None:
        """Write a whole object by a conditional request; never sent again by us.

        ``part_bytes`` is the size of the parts in which a large one goes up, where there are parts.
        """
        ...

    def open_output(self, key: str) -> Any:
        """A writer in fsspec's manner: ``close`` puts the object in place, ``discard`` does not."""
        ...

    def copy(self, key: str, target: str) -> None:
        """Copy an object on the server; it is there, whole, when this returns."""
        ...

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Entries below a folder: all files if ``deep``, else its own files and sub-folders.

        Files that sort before ``start``, a name in the folder, may be left out. An absent folder
        gives nothing, or raises ``FileNotFoundError``.
        """
        ...

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """Delete; what failed, by key. Absent keys may fail with ``FileNotFoundError``."""
        ...


class CommonService:
    """fsspec's own calls: whole listings, one delete a request."""

    delete_batch: int = 1

    def __init__(self, file_system: Any, patience: Patience | None = None) -> None:
        """Serve an fsspec file system."""
        self._fs = file_system
        self._patience = patience or Patience()

    @property
    def file_system(self) -> Any:
        """The fsspec file system."""
        return self._fs

    def key_of(self, uri: str) -> str:
        """The key as the library reads it from an address."""
        return str(self._fs._strip_protocol(uri))

    def read(self, key: str) -> bytes:
        """A whole object."""
        return self._patience.ask(lambda: bytes(self._fs.cat_file(key)))

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Some bytes of an object."""
        return self._patience.ask(
            lambda: bytes(self._fs.cat_file(key, start=offset, end=offset + length))
        )

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes, after a look at the size."""
        size = int(self._patience.ask(lambda: self._fs.info(key))["size"])
        first = max(0, size - length)
        return self.read_range(key, first, size - first) if size else b"", size

    def download(self, key: str, path: str) -> None:
        """A whole object into a local file."""
        self._patience.ask(lambda: self._fs.get_file(key, path))

    def stat(self, key: str) -> Entry | None:
        """Facts of an object."""
        try:
            entry: Entry = self._patience.ask(lambda: self._fs.info(key))
        except FileNotFoundError:
            return None
        return entry if entry["type"] == "file" else None

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole object."""
        self._patience.ask(lambda: self._fs.pipe_file(key, data))

    def create(self, key: str, data: bytes, part_bytes: int | None = None) -> None:
        """Write a whole object in the library's exclusive mode."""
        parts = {} if part_bytes is None else {"chunksize": part_bytes}
        self._fs.pipe_file(key, data, mode="create", **parts)

    def open_output(self, key: str) -> Any:
        """The library's own writer."""
        return self._fs.open(key, "wb")

    def copy(self, key: str, target: str) -> None:
        """Copy as the library does."""
        self._patience.ask(lambda: self._fs.cp_file(key, target))

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """One page with everything."""
        self._fs.invalidate_cache()
        yield list(
            self._fs.find(folder, detail=True).values()
            if deep
            else self._fs.ls(folder, detail=True)
        )

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """One after another."""
        failed: dict[str, Exception] = {}
        for key in keys:
            try:
                self._patience.ask(partial(self._fs.rm_file, key))
            except Exception as error:
                failed[key] = error
        return failed


class S3Service(CommonService):
    """Amazon S3 and what speaks its protocol.

    Source: Amazon S3 API reference, GetObject, ListObjectsV2 and DeleteObjects.
    """

    delete_batch: int = 1000

    def read(self, key: str) -> bytes:
        """A whole object; s3fs would first ask for its size, to read pieces side by side."""
        return self._ask(key)[0]

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Some bytes of an object."""
        return self._ask(key, f"bytes={offset}-{offset + length - 1}")[0]

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes; the answer names the size of the whole."""
        try:
            return self._ask(key, f"bytes=-{length}")
        except Exception:
            # No range can be had of an empty object.
            found = self.stat(key)
            if found is not None and found["size"] == 0:
                return b"", 0
            raise

    def _ask(self, key: str, wanted: str | None = None) -> tuple[bytes, int]:
        answer: tuple[bytes, int] = self._patience.ask(
            lambda: sync(self._fs.loop, self._get, key, wanted)
        )
        return answer

    async def _get(self, key: str, wanted: str | None = None) -> tuple[bytes, int]:
        bucket, _, name = key.partition("/")
        range_ = {} if wanted is None else {"Range": wanted}
        answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=name, **range_)
        async with answer["Body"] as body:
            data = bytes(await body.read())
        total = answer.get("ContentRange", "").rpartition("/")[2]
        return data, int(total) if total.isdigit() else len(data)

    def download(self, key: str, path: str) -> None:
        """A whole object; a broken answer begins again, so that no two versions mix."""
        self._patience.ask(lambda: sync(self._fs.loop, self._download, key, path))

    async def _download(self, key: str, path: str) -> None:
        bucket, _, name = key.partition("/")
        answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=name)
        with open(path, "wb") as file:
            async with answer["Body"] as body:
                while chunk := await body.read(_CHUNK_BYTES):
                    file.write(chunk)

    def stat(self, key: str) -> Entry | None:
        """Facts of an object, in one request; s3fs would go on and look for a folder."""
        bucket, _, name = key.partition("/")
        try:
            found = self.call("head_object", Bucket=bucket, Key=name)
        except FileNotFoundError:
            return None
        return {
            "name": key,
            "type": "file",
            "size": found["ContentLength"],
            "LastModified": found["LastModified"],
        }

    def open_output(self, key: str) -> Any:
        """A writer whose parts are each sent again where that is needed."""
        return PartWriter(lambda data: self.put(key, data), lambda: _Parts(self, key))

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole object, in one request up to 5 GB."""
        bucket, _, name = key.partition("/")
        self.call("put_object", Bucket=bucket, Key=name, Body=data)

    def call(self, operation: str, **request: Any) -> Any:
        """One request that may be sent twice."""
        return self._patience.ask(partial(self._fs.call_s3, operation, **request))

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Pages of up to 1,000 keys."""
        bucket, prefix = split_folder(folder)
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        if start:
            # StartAfter leaves its own key out: a shorter one lets at most a few more in.
            request["StartAfter"] = prefix + start[:-1]
        if not deep:
            request["Delimiter"] = "/"
        while True:
            answer = self.call("list_objects_v2", **request)
            yield [
                *(
                    {"name": f"{bucket}/{found['Prefix']}".rstrip("/"), "type": "directory"}
                    for found in answer.get("CommonPrefixes") or ()
                ),
                *(
                    {
                        "name": f"{bucket}/{found['Key']}",
                        "type": "file",
                        "size": found["Size"],
                        # Some tell milliseconds here, which no look at the object itself gives.
                        "LastModified": found["LastModified"].replace(microsecond=0),
                    }
                    for found in answer.get("Contents") or ()
                ),
            ]
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """One request, and again for the keys that the store had no time for."""
        failed: dict[str, Exception] = {}
        left = list(keys)
        for failures in range(_DELETE_ATTEMPTS):
            if failures:
                self._patience.pause(failures - 1)
            refused = self._delete(left)
            left = [key for key, (code, _) in refused.items() if code in _BUSY_CODES]
            failed |= {key: _refused(*why) for key, why in refused.items() if key not in left}
            if not left:
                return failed
        return failed | {key: _refused(*refused[key]) for key in left}

    def _delete(self, keys: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
        """Code and message of each key that was refused; one passed over in silence is gone."""
        bucket = keys[0].partition("/")[0]
        names = [{"Key": key.partition("/")[2]} for key in keys]
        answer = self.call(
            "delete_objects", Bucket=bucket, Delete={"Objects": names, "Quiet": True}
        )
        return {
            f"{bucket}/{found['Key']}": (found.get("Code"), found.get("Message"))
            for found in answer.get("Errors") or ()
        }


class _Parts:
    """A multipart upload."""

    def __init__(self, service: S3Service, key: str) -> None:
        self._service, self._key = service, key
        bucket, _, name = key.partition("/")
        self._place = {"Bucket": bucket, "Key": name}
        self._place["UploadId"] = service.call("create_multipart_upload", **self._place)["UploadId"]
        self._parts: list[dict[str, Any]] = []
        self._size_bytes = 0

    def add(self, data: bytes) -> None:
        number = len(self._parts) + 1
        answer = self._service.call("upload_part", **self._place, PartNumber=number, Body=data)
        checksums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
        checksums.pop("ChecksumType", None)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"], **checksums})
        self._size_bytes += len(data)

    def finish(self) -> None:
        try:
            parts = {"Parts": self._parts}
            self._service.call("complete_multipart_upload", **self._place, MultipartUpload=parts)
        except FileNotFoundError:
            # The upload is over: a first try may have completed it, and its answer got lost.
            found = self._service.stat(self._key)
            if found is None or found["size"] != self._size_bytes:
                raise

    def abandon(self) -> None:
        with suppress(Exception):
            self._service.call("abort_multipart_upload", **self._place)


def no_bucket(bucket: str) -> StorageError:
    """The error of a listing for which there is no bucket."""
    kind, hint = NO_BUCKET
    return kind(f"{bucket!r} is not there", hint=hint)


def split_folder(key: str) -> tuple[str, str]:
    """Bucket, and the prefix of what lies in the folder."""
    bucket, _, rest = key.partition("/")
    return bucket, f"{rest.rstrip('/')}/" if rest else ""


def _refused(code: str | None, message: str | None) -> Exception:
    text = f"{code or 'refused'}: {message or 'the store gave no reason'}"
    return PermissionError(text) if code == "AccessDenied" else OSError(text)
