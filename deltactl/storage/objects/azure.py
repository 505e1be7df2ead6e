"""Send requests to Azure Blob Storage and Data Lake Storage, with the client of adlfs.

adlfs parses the name of a blob as part of a URL: it drops the text after ``#``, and for adlfs ``?``
begins a query. So deltactl passes no names to adlfs; adlfs provides connections and credentials.

Source: Blob service REST API, Put Blob, Put Block List, List Blobs, Copy Blob, Blob Batch.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

from adlfs import AzureBlobFileSystem
from azure.core.credentials import AzureSasCredential
from azure.storage.blob.aio import BlobServiceClient
from fsspec.asyn import sync
from fsspec.config import apply_config

from deltactl.errors import StorageError, UnsupportedFeatureError, UsageError
from deltactl.storage.errors import no_bucket_error
from deltactl.storage.file_copies import StoredFacts
from deltactl.storage.network import traffic as network
from deltactl.storage.network.traffic import Traffic, azure_transport
from deltactl.storage.objects.services import (
    NO_CACHES,
    Entry,
    ObjectService,
    Upload,
    split_directory,
)
from deltactl.storage.vended import Current, take_vended

_ADDRESS: Final = re.compile(
    r"[a-z]+://(?:(?P<container>[^/@]+)@(?P<host>(?P<account>[^./]+)[^/]*)|(?P<bare>[^/@]+))"
    r"(?:/(?P<name>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_COPY_POLL_SECONDS: Final = 0.2
_PAGE_NAMES: Final = 5000  # the most that a request may ask for
# Smaller objects (checkpoints, small data files) are read in one piece, others in pieces of this
# size.
_PIECE_BYTES: Final = 64 << 20
_SNAPSHOT: Final = "snapshot="


def _split_azure_uri(uri: str) -> tuple[str | None, str, str]:
    """Return account, container and name of an address, none of them decoded.

    ``abfss://container@account.dfs.core.windows.net/name`` contains the account. For
    ``az://container/name`` the account is in the options.
    """
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        raise UsageError(
            f"{uri!r} has no container",
            hint="Write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH or az://CONTAINER/PATH.",
        )
    container = found["container"] or found["bare"]
    return found["account"], container, (found["name"] or "").strip("/")


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Connect with options of the library; see ``Provider.module``."""
    # Now, so that the lines below see the options in fsspec's own files.
    settings = apply_config(AzureBlobFileSystem, settings)
    account = _split_azure_uri(uri)[0]
    if account is not None:
        settings.setdefault("account_name", account)
    names = {"account_name", "connection_string"}
    variables = {"AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"}
    if not (names & settings.keys() or variables & os.environ.keys()):
        raise UsageError(
            f"{uri!r} has no storage account",
            hint="Write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, or set "
            "AZURE_STORAGE_ACCOUNT_NAME.",
        )
    vended = take_vended(
        settings, "account_key", "sas_token", "credential", "client_id", "client_secret", "anon"
    )
    if vended is not None:
        settings["anon"] = True  # adlfs looks for no credentials of the user
    file_system = AzureBlobFileSystem(**{**settings, **NO_CACHES})
    client = file_system.service_client
    # An address with a signature would win over the credential.
    file_system.service_client = BlobServiceClient(
        client.url if vended is None else client.url.partition("?")[0],
        credential=client.credential if vended is None else VendedSas(vended),
        transport=azure_transport(traffic, network.CONNECT_SECONDS, network.SILENCE_SECONDS),
        max_single_get_size=_PIECE_BYTES,
        max_chunk_get_size=_PIECE_BYTES,
        # Only `RetryPolicy` sends a request again, and never a conditional put (ADR 14).
        retry_total=0,
    )
    return AzureService(file_system)


class VendedSas(AzureSasCredential):
    """A signature that is looked up for each request."""

    def __init__(self, current: Current) -> None:
        """Sign with what ``current`` returns."""
        super().__init__("")
        self._current = current

    @property
    def signature(self) -> str:
        """Return the signature for one request; perhaps a catalog is asked for a new one."""
        return self._current()["sas_token"].removeprefix("?")


class AzureService(ObjectService):
    """Requests that use an ``adlfs.AzureBlobFileSystem``; a key is ``container/name``."""

    # The most that one request may have, as in the other services.
    delete_batch: int = 256
    old_versions_term = "previous versions, snapshots and soft-deleted blobs"

    def find_endpoint(self) -> str:
        """Return the endpoint of the account, which is in the options."""
        return str(self._fs.service_client.url)

    def key_of(self, uri: str) -> str:
        """Return the container and the name of an address, unchanged."""
        account, container, name = _split_azure_uri(uri)
        ours = self._account
        if account is not None and account != ours:
            raise StorageError(
                f"{uri!r} is in the storage account {account!r}, not in {ours!r}",
                hint=f"Open this address as a separate table, with credentials of {account!r}.",
            )
        return f"{container}/{name}" if name else container

    def engine_uri(self, uri: str) -> str:
        """Return the address with the account, which Hadoop needs: it has no scheme ``az``."""
        account, found = self._account, _ADDRESS.fullmatch(uri)
        if not account or found is None:
            raise UnsupportedFeatureError(
                f"engines have no address for {uri}: its storage account is not known",
                hint="Give the address as abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH.",
            )
        host = found["host"] or urlsplit(self.find_endpoint()).netloc
        if not host.startswith(f"{account}."):
            host = f"{account}.dfs.core.windows.net"  # of an emulator too
        place = f"{found['container'] or found['bare']}@{host.replace('.blob.', '.dfs.', 1)}"
        return f"abfss://{place}/{found['name'] or ''}".rstrip("/")

    @property
    def _account(self) -> str:
        """Return the account of the endpoint, or else of the options; empty if it is not known."""
        return str(self._fs.service_client.account_name or self._fs.account_name or "")

    def read(self, key: str) -> bytes:
        """Return a whole blob."""
        return bytes(self._ask(self._read, key)[0])

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Return some bytes of a blob."""
        return bytes(self._ask(self._read, key, offset, length)[0])

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes; send a second request if the blob is longer than ``length``.

        A request for the last bytes needs the size of the blob, which is in the first answer.
        """
        head, size = self._ask(self._read, key, 0, length)
        if size <= length:
            return head, size
        return self.read_range(key, size - length, length), size

    def download(self, key: str, path: str) -> None:
        """Download a whole blob in pieces, all from one version of the blob."""
        self._ask(self._download, key, path)

    def stat(self, key: str) -> Entry | None:
        """Return facts of a blob."""
        try:
            entry: Entry | None = self._ask(self._stat, key)
        except Exception as error:
            if getattr(error, "status_code", None) == HTTPStatus.NOT_FOUND:
                return None
            raise
        return entry

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole blob."""
        self._ask(self._upload, key, data, True)

    def create(self, key: str, data: bytes) -> None:
        """Create a whole blob; fail if the name exists, because of the header ``If-None-Match``."""
        # Not `_ask`: a conditional put is sent once.
        sync(self._fs.loop, self._upload, key, data, False)

    def begin(self, key: str) -> Upload:
        """Begin a blob of several blocks, which are invisible until they are committed."""
        return _Blocks(self._ask, self._blob(key))

    def copy(self, key: str, target: str) -> None:
        """Copy on the server, and wait until the copy is complete."""
        self._ask(self._copy, key, target)

    def facts_in(self, entry: Entry) -> StoredFacts:
        """Return size and ETag of a blob, and the MD5 that a client or the service stored."""
        md5 = entry["content_settings"].content_md5
        return StoredFacts(entry["size"], {"md5": bytes(md5).hex()} if md5 else {}, entry["etag"])

    def copy_whole(self, key: str, target: str, before: StoredFacts) -> StoredFacts:
        """Copy a blob if it still has the ETag of ``before``."""
        self._ask(self._copy, key, target, before.version)
        return self.facts_of_copy(target)

    def pages(self, directory: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Yield pages of up to 5,000 names, from the first name on."""
        # `start` is not sent: together with a prefix, it is not documented (ADR 14).
        container, _ = split_directory(directory)
        for page in self._blobs(directory, ["metadata"], deep=deep):
            yield [entry for blob in page if (entry := _entry(container, blob)) is not None]

    def _blobs(self, directory: str, include: list[str], *, deep: bool) -> Iterator[list[Any]]:
        container, prefix = split_directory(directory)
        client = self._fs.service_client.get_container_client(container)
        listing = client.list_blobs if deep else client.walk_blobs
        more = {} if deep else {"delimiter": "/"}
        found = listing(
            name_starts_with=prefix, include=include, results_per_page=_PAGE_NAMES, **more
        )
        token: str | None = None
        while True:
            try:
                page, token = self._ask(self._page, found, token)
            except Exception as error:
                if getattr(error, "status_code", None) == HTTPStatus.NOT_FOUND:
                    raise no_bucket_error(container) from None
                raise
            yield page
            if not token:
                return

    def old_versions(self, directory: str) -> Iterator[tuple[Entry, str]]:
        """Yield the old versions and the snapshots of blobs; not those of a soft delete."""
        container, _ = split_directory(directory)
        include = ["metadata", "snapshots", "versions"]
        for blob in chain.from_iterable(self._blobs(directory, include, deep=True)):
            is_old = blob.version_id is not None and not blob.is_current_version
            entry = _entry(container, blob) if blob.snapshot or is_old else None
            if entry is not None:
                yield entry, f"{_SNAPSHOT}{blob.snapshot}" if blob.snapshot else blob.version_id

    def read_old_range(self, key: str, version_id: str, offset: int, length: int) -> bytes:
        """Return some bytes of an old version or of a snapshot of a blob."""
        return bytes(self._ask(self._read, key, offset, length, version_id)[0])

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """Delete with one batch request.

        Blobs that remain after it are deleted one by one, to get the errors.
        """
        gone = self._ask(self._delete_batch, keys) if len(keys) > 1 else set()
        return super().delete([key for key in keys if key not in gone])

    def _delete_one(self, key: str) -> None:
        self._ask(self._delete, key)

    def _ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self._retry.call(lambda: sync(self._fs.loop, work, *arguments))

    def _blob(self, key: str, version_id: str | None = None) -> Any:
        container, _, name = key.partition("/")
        is_snapshot = version_id is not None and version_id.startswith(_SNAPSHOT)
        old = {"version_id": version_id}
        if is_snapshot:
            old = {"snapshot": str(version_id).removeprefix(_SNAPSHOT)}
        return self._fs.service_client.get_blob_client(container, name, **old)

    def _signed_url(self, key: str) -> str:
        """Return the address of a blob for a request of the service to itself."""
        url, credential = str(self._blob(key).url), self._fs.service_client.credential
        return f"{url}?{credential.signature}" if isinstance(credential, VendedSas) else url

    async def _read(
        self,
        key: str,
        offset: int | None = None,
        length: int | None = None,
        version_id: str | None = None,
    ) -> tuple[bytes, int]:
        blob = self._blob(key, version_id)
        stream = await blob.download_blob(offset=offset, length=length)
        total = (stream.properties.content_range or "").rpartition("/")[2]
        data = await stream.readall()
        return data, int(total) if total.isdigit() else len(data)

    async def _download(self, key: str, path: str) -> None:
        stream = await self._blob(key).download_blob()
        with open(path, "wb") as file:
            async for chunk in stream.chunks():
                file.write(chunk)

    async def _stat(self, key: str) -> Entry | None:
        return _entry(key.partition("/")[0], await self._blob(key).get_blob_properties())

    async def _upload(self, key: str, data: bytes, overwrite: bool) -> None:
        await self._blob(key).upload_blob(data, overwrite=overwrite)

    async def _copy(self, key: str, target: str, etag: str | None = None) -> None:
        from azure.core import MatchConditions

        pinned = {} if etag is None else {
            "source_etag": etag, "source_match_condition": MatchConditions.IfNotModified,
        }  # fmt: skip
        blob = self._blob(target)
        state = await blob.start_copy_from_url(self._signed_url(key), **pinned)
        try:
            await self._wait_for_copy(blob, state["copy_status"])
        except BaseException:
            # The service first creates an empty blob.
            with suppress(Exception):
                await blob.abort_copy(state["copy_id"])
            with suppress(Exception):
                await blob.delete_blob()
            raise

    async def _wait_for_copy(self, blob: Any, status: str) -> None:
        while status == "pending":
            await asyncio.sleep(_COPY_POLL_SECONDS)
            status = (await blob.get_blob_properties()).copy.status
        if status != "success":
            raise OSError(f"the copy ended as {status!r}")

    async def _page(self, found: Any, token: str | None) -> tuple[list[Any], str | None]:
        pages = found.by_page(continuation_token=token)
        async for page in pages:
            return [blob async for blob in page], pages.continuation_token
        return [], None

    async def _delete(self, key: str) -> None:
        await self._blob(key).delete_blob()

    async def _delete_batch(self, keys: Sequence[str]) -> set[str]:
        container = keys[0].partition("/")[0]
        client = self._fs.service_client.get_container_client(container)
        names = [key.partition("/")[2] for key in keys]
        answers = await client.delete_blobs(*names, raise_on_any_failure=False)
        statuses = [answer.status_code async for answer in answers]
        # Then it is not known which blobs these are: each is deleted by its own request.
        if len(statuses) != len(keys):
            return set()
        return {
            key for key, status in zip(keys, statuses, strict=True) if status == HTTPStatus.ACCEPTED
        }


def _entry(container: str, blob: Any) -> Entry | None:
    """Return the entry of a listed blob; ``None`` for the marker of a directory."""
    if not hasattr(blob, "size"):
        return {"name": f"{container}/{blob.name}".removesuffix("/"), "type": "directory"}
    metadata = blob.metadata or {}
    # Accounts with a hierarchical namespace also list directories as blobs.
    if any(metadata.get(key) == "true" for key in ("hdi_isfolder", "Hdi_isfolder")):
        return None
    facts = {key: blob[key] for key in ("size", "last_modified", "etag", "content_settings")}
    return {"name": f"{container}/{blob.name}", "type": "file", **facts}


class _Blocks:
    """Blocks of a blob that are committed together. The service removes uncommitted blocks."""

    def __init__(self, ask: Callable[[Callable[[], Any]], Any], blob: Any) -> None:
        self._ask, self._blob = ask, blob
        self._names: list[str] = []

    def add(self, data: bytes) -> None:
        # All blocks of a blob must have names of the same length.
        name = uuid.uuid4().hex
        self._ask(lambda: self._blob.stage_block(name, data, length=len(data)))
        self._names.append(name)

    def finish(self) -> None:
        from azure.storage.blob import BlobBlock

        # If the same list is sent twice, the second request creates the same blob again.
        self._ask(lambda: self._blob.commit_block_list([BlobBlock(name) for name in self._names]))

    def abandon(self) -> None:
        self._names.clear()
