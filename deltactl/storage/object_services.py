"""What kinds of object stores do beyond fsspec's common calls.

Listings begin at a key and come page by page, so that a log of a million commits is never listed
whole and a table's tree never held; many objects are deleted in one request where that exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

_VERSIONS_LISTED: Final = 100

Entry = Mapping[str, Any]
"""``name`` (bucket and key), ``type`` (file or directory), ``size``, and a time of modification."""


class ObjectService(Protocol):
    """Listing and deleting by key, which is the bucket, a slash and the object's name."""

    @property
    def delete_batch(self) -> int:
        """How many keys one call of ``delete`` takes."""
        ...

    def read(self, key: str) -> bytes:
        """A whole object, in one request."""
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

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Make a deleted object's newest version visible again, or only say whether that can be.

        An object that is there is left alone. ``False``: no version of it is kept.
        """
        ...


class CommonService:
    """fsspec's own calls: whole listings, one delete a request."""

    delete_batch: Final = 1

    def __init__(self, file_system: Any) -> None:
        """Serve an fsspec file system."""
        self._fs = file_system

    def read(self, key: str) -> bytes:
        """A whole object."""
        return bytes(self._fs.cat_file(key))

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
                self._fs.rm_file(key)
            except Exception as error:
                failed[key] = error
        return failed

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Only objects that are there: of versions fsspec knows nothing common."""
        return bool(self._fs.exists(key))


class S3Service:
    """Amazon S3 and what speaks its protocol.

    Source: Amazon S3 API reference, ListObjectsV2 and DeleteObjects.
    """

    delete_batch: Final = 1000

    def __init__(self, file_system: Any) -> None:
        """Serve an ``s3fs.S3FileSystem``."""
        self._fs = file_system

    def read(self, key: str) -> bytes:
        """A whole object; s3fs would first ask for its size, to read pieces side by side."""
        return bytes(self._fs.cat_file(key, max_concurrency=1))

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Pages of up to 1,000 keys."""
        bucket, prefix = _split(folder)
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        if start:
            # StartAfter leaves its own key out: a shorter one lets at most a few more in.
            request["StartAfter"] = prefix + start[:-1]
        if not deep:
            request["Delimiter"] = "/"
        while True:
            answer = self._fs.call_s3("list_objects_v2", **request)
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
                        "LastModified": found["LastModified"],
                    }
                    for found in answer.get("Contents") or ()
                ),
            ]
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """One request; a key that the answer passes over in silence is gone."""
        bucket = _split(keys[0])[0]
        names = [{"Key": key.partition("/")[2]} for key in keys]
        answer = self._fs.call_s3(
            "delete_objects", Bucket=bucket, Delete={"Objects": names, "Quiet": True}
        )
        return {
            f"{bucket}/{found['Key']}": _refused(found.get("Code"), found.get("Message"))
            for found in answer.get("Errors") or ()
        }

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Remove the delete markers that hide the newest version.

        Source: Amazon S3 user guide, "Working with delete markers".
        """
        bucket, _, name = key.partition("/")
        while True:
            # A key comes before all longer ones that begin with it, its newest version first.
            answer = self._fs.call_s3(
                "list_object_versions", Bucket=bucket, Prefix=name, MaxKeys=_VERSIONS_LISTED
            )
            kept = [v for v in answer.get("Versions") or () if v["Key"] == name]
            markers = [m for m in answer.get("DeleteMarkers") or () if m["Key"] == name]
            hiding = [marker for marker in markers if marker["IsLatest"]]
            if not kept or not hiding or dry_run:
                return bool(kept)
            self._fs.call_s3(
                "delete_object", Bucket=bucket, Key=name, VersionId=hiding[0]["VersionId"]
            )
            self._fs.invalidate_cache()


class GcsService(CommonService):
    """Google Cloud Storage.

    Source: Cloud Storage JSON API, Objects: list.
    """

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Pages of up to 1,000 objects."""
        bucket, prefix = _split(folder)
        request: dict[str, Any] = {"prefix": prefix, "maxResults": 1000}
        if start:
            request["startOffset"] = prefix + start
        if not deep:
            request["delimiter"] = "/"
        while True:
            answer = self._fs.call("GET", "b/{}/o", bucket, **request, json_out=True)
            yield [
                *(
                    {"name": f"{bucket}/{found}".rstrip("/"), "type": "directory"}
                    for found in answer.get("prefixes") or ()
                ),
                *(
                    {
                        "name": f"{bucket}/{found['name']}",
                        "type": "file",
                        "size": found.get("size", 0),
                        "updated": found.get("updated"),
                    }
                    for found in answer.get("items") or ()
                ),
            ]
            token = answer.get("nextPageToken")
            if not token:
                return
            request["pageToken"] = token


def _split(key: str) -> tuple[str, str]:
    """Bucket, and the prefix of what lies in the folder."""
    bucket, _, rest = key.partition("/")
    return bucket, f"{rest.rstrip('/')}/" if rest else ""


def _refused(code: str | None, message: str | None) -> Exception:
    text = f"{code or 'refused'}: {message or 'the store gave no reason'}"
    return PermissionError(text) if code == "AccessDenied" else OSError(text)
