"""Send requests to Google Cloud Storage that fsspec's common calls do not offer.

Source: Cloud Storage JSON API, Objects: get, list; batch requests.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from aiohttp import ClientTimeout
from fsspec.asyn import sync
from fsspec.callbacks import NoOpCallback
from fsspec.config import apply_config

# The class that gcsfs exports would request the kind of each bucket over gRPC.
from gcsfs.core import GCSFileSystem
from google.auth.credentials import Credentials
from google.auth.environment_vars import CREDENTIALS
from google.auth.exceptions import DefaultCredentialsError

from deltactl.lazy import cached_property
from deltactl.storage.errors import no_bucket_error
from deltactl.storage.file_copies import StoredFacts
from deltactl.storage.network import traffic as network
from deltactl.storage.network.traffic import Traffic, gcs_session_settings
from deltactl.storage.objects.part_writer import PART_BYTES
from deltactl.storage.objects.services import (
    NO_CACHES,
    Entry,
    ObjectService,
    Upload,
    split_directory,
)
from deltactl.storage.vended import Current, take_vended

_PAGE_NAMES = 1000  # the most that a request may ask for


class GcsFiles(GCSFileSystem):  # type: ignore[misc]
    """gcsfs without retries: only `RetryPolicy` retries, and never a conditional put."""

    # The methods without the decorator that retries.
    _request = GCSFileSystem._request.__wrapped__
    _get_file_request = GCSFileSystem._get_file_request.__wrapped__


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Connect with options of the library; see ``Provider.module``."""
    # Now, so that the lines below see the options in fsspec's own files.
    settings = apply_config(GcsFiles, settings)
    vended = take_vended(settings, "token")
    if vended is not None:
        settings["token"] = VendedToken(vended)
    settings.setdefault(
        "requests_timeout",
        ClientTimeout(sock_connect=network.CONNECT_SECONDS, sock_read=network.SILENCE_SECONDS),
    )
    nested = {**settings.pop("session_kwargs", {}), **gcs_session_settings(traffic)}
    settings = {**settings, **NO_CACHES, "session_kwargs": nested}
    if settings.get("token") is not None:
        return GcsService(GcsFiles(**settings))
    # gcsfs would next ask the metadata server for half a minute.
    try:
        return GcsService(GcsFiles(**{**settings, "token": "google_default"}))
    except DefaultCredentialsError:
        if os.environ.get(CREDENTIALS):
            raise
        return GcsService(GcsFiles(**{**settings, "token": "anon"}))


class VendedToken(Credentials):
    """A token that is looked up for each request."""

    def __init__(self, current: Current) -> None:
        """Authorize with what ``current`` returns."""
        self._current = current
        super().__init__()  # type: ignore[no-untyped-call]

    @property
    def token(self) -> str:
        """Return the token for one request; perhaps a catalog is asked for a new one."""
        return self._current()["token"]

    @token.setter
    def token(self, value: object) -> None:
        """Ignore the initial value of the class."""

    def refresh(self, request: object) -> None:
        """Do nothing: the token is always valid."""


class GcsService(ObjectService):
    """Requests that use a ``gcsfs.core.GCSFileSystem``."""

    # The most that one request may have.
    delete_batch: int = 100
    old_versions_term = "noncurrent and soft-deleted objects"

    def find_endpoint(self) -> str:
        """Return the endpoint of Google, or of the emulator if there is one."""
        return str(self._fs._location)

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes, and the size of the object from the same answer."""
        try:
            return self._retry.call(partial(self._read_tail, key, length))
        except Exception:
            if self._empty(key) is None:
                raise
            return b"", 0

    def _read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        headers = {"Range": f"bytes=-{length}"}
        answer, data = self._fs.call("GET", self._fs.url(key), headers=headers)
        total = answer.get("Content-Range", "").rpartition("/")[2]
        return bytes(data), int(total) if total.isdigit() else len(data)

    def download(self, key: str, path: str) -> None:
        """Download a whole object in one request, and compare its checksum."""
        get = partial(self._fs._get_file_request, callback=NoOpCallback())
        self._retry.call(lambda: sync(self._fs.loop, get, key, path))

    def stat(self, key: str) -> Entry | None:
        """Return facts of an object with one request; gcsfs would also check for a directory."""
        bucket, _, name = key.partition("/")
        try:
            found = self._retry.call(
                lambda: self._fs.call("GET", "b/{}/o/{}", bucket, name, json_out=True)
            )
        except FileNotFoundError:
            return None
        return _entry(bucket, found)

    def facts_in(self, entry: Entry) -> StoredFacts:
        """Return size, CRC32C, MD5 (not for composite objects) and generation of an object."""
        checksums = {"crc32c": entry["crc32c"]} if entry.get("crc32c") else {}
        if entry.get("md5Hash"):
            checksums["md5"] = b64decode(entry["md5Hash"]).hex()
        return StoredFacts(int(entry["size"]), checksums, str(entry["generation"]))

    def copy_whole(self, key: str, target: str, before: StoredFacts) -> StoredFacts:
        """Copy an object of this generation to another name, in as many requests as needed.

        Source: Cloud Storage JSON API, Objects: rewrite.
        """
        return self._copy(key, target, {"sourceGeneration": before.version})

    def _copy(self, key: str, target: str, request: dict[str, Any]) -> StoredFacts:
        places = (*key.split("/", 1), *target.split("/", 1))
        while True:
            answer = self._retry.call(partial(self._rewrite, places, dict(request)))
            if answer["done"]:
                return self.facts_in(answer["resource"])
            request["rewriteToken"] = answer["rewriteToken"]

    def _rewrite(self, places: Sequence[str], request: Entry) -> Entry:
        headers = {"Content-Type": "application/json"}
        path = "b/{}/o/{}/rewriteTo/b/{}/o/{}"
        answer: Entry = self._fs.call(
            "POST", path, *places, headers=headers, json_out=True, **request
        )
        return answer

    def create(self, key: str, data: bytes) -> None:
        """Create a whole object; fail if the name exists, because of ``ifGenerationMatch=0``."""
        # Not `_retry`: a conditional put is sent once.
        self._fs.pipe_file(key, data, mode="create")

    def begin(self, key: str) -> Upload:
        """Begin a resumable upload of gcsfs."""
        return _Resumable(self._retrying, key)

    @cached_property
    def _retrying(self) -> GCSFileSystem:
        """A file system with the retries of gcsfs, for the parts of uploads."""
        # The writer of gcsfs sends the parts, so `RetryPolicy` cannot send one again. Each part has
        # an offset, so it may be sent twice.
        token = self._fs.credentials.credentials or "anon"
        return GCSFileSystem(**{**self._fs.storage_options, "token": token})

    def pages(self, directory: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Yield pages of up to 1,000 objects."""
        bucket, prefix = split_directory(directory)
        request = {"prefix": prefix, **({"startOffset": prefix + start} if start else {})}
        for answer in self._answers(bucket, request | ({} if deep else {"delimiter": "/"})):
            yield [
                *(
                    {"name": f"{bucket}/{found}".removesuffix("/"), "type": "directory"}
                    for found in answer.get("prefixes") or ()
                ),
                *(_entry(bucket, found) for found in answer.get("items") or ()),
            ]

    def _answers(self, bucket: str, request: dict[str, Any]) -> Iterator[Entry]:
        token: str | None = ""
        while token is not None:
            more = {"pageToken": token} if token else {}
            ask = partial(self._fs.call, "GET", "b/{}/o", bucket, **request, **more, json_out=True)
            try:
                answer = self._retry.call(partial(ask, maxResults=_PAGE_NAMES))
            except FileNotFoundError:
                raise no_bucket_error(bucket) from None
            yield answer
            token = answer.get("nextPageToken")

    def old_versions(self, directory: str) -> Iterator[tuple[Entry, str]]:
        """Yield the noncurrent versions, also of deleted objects; not those of a soft delete."""
        return self._noncurrent(*split_directory(directory))

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Copy the newest noncurrent version to the name, unless it has an object.

        Source: Cloud Storage documentation, "Use versioned objects".
        """
        if self.stat(key) is not None:
            return True
        bucket, _, name = key.partition("/")
        kept = [int(id_) for old, id_ in self._noncurrent(bucket, name) if old["name"] == key]
        if kept and not dry_run:
            # Generations increase, so the greatest is the newest.
            self._copy(key, key, {"sourceGeneration": str(max(kept)), "ifGenerationMatch": "0"})
        return bool(kept)

    def _noncurrent(self, bucket: str, prefix: str) -> Iterator[tuple[Entry, str]]:
        for answer in self._answers(bucket, {"prefix": prefix, "versions": "true"}):
            for found in answer.get("items") or ():
                if "timeDeleted" in found:
                    yield _entry(bucket, found), str(found["generation"])

    def read_old_range(self, key: str, version_id: str, offset: int, length: int) -> bytes:
        """Return some bytes of a generation of an object."""
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
        ask = partial(self._fs.call, "GET", self._fs.url(key), generation=version_id)
        return bytes(self._retry.call(partial(ask, headers=headers))[1])

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """Delete with one batch request.

        Objects that remain after it are deleted one by one, to get the errors.
        """
        if len(keys) == 1:
            return super().delete(keys)
        answers = self._retry.call(lambda: sync(self._fs.loop, self._fs._rm_files, list(keys)))
        # gcsfs returns the name of a deleted object, and an error for any other.
        gone = {answer for answer in answers if isinstance(answer, str)}
        return super().delete([key for key in keys if key not in gone])


def _entry(bucket: str, found: Entry) -> Entry:
    size = int(found.get("size", 0))
    return {**found, "name": f"{bucket}/{found['name']}", "type": "file", "size": size}


class _Resumable:
    """A resumable upload of gcsfs, with the retries of gcsfs."""

    def __init__(self, file_system: Any, key: str) -> None:
        self._file = file_system.open(key, "wb", block_size=PART_BYTES)

    def add(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        with suppress(Exception):
            self._file.discard()
        self._file.closed = True  # else fsspec would store an incomplete object
