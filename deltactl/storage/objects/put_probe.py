"""Check that an object store supports put-if-absent: known endpoint, cached result, or test.

Some stores accept the condition of a conditional put but ignore it. Then two commits of the same
version would both succeed. The test shows that the store refuses a put over an existing object. It
cannot show that only one of two simultaneous puts succeeds; only the documentation of the store can
say this. ``log/committers/settle`` handles a put whose outcome is unknown.

Source: Amazon S3 user guide, "Add preconditions to S3 operations"; Cloud Storage, "Request
preconditions"; Azure Storage, "Specifying conditional headers".
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from deltactl.clock import Clock, SystemClock
from deltactl.errors import (
    ObjectExistsError,
    SafetyError,
    StorageError,
    TransientStorageError,
    UnsupportedByStoreError,
)
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.providers import Provider
from deltactl.units import DAY_MS

PROBE_PREFIX: Final = "_deltactl/put-if-absent-"
"""Prefix of test objects below the root of a table; no reader lists ``_deltactl``."""

# This service has an address at Amazon, but no conditional writes.
_UNKNOWN_HOST_PART: Final = "s3-outposts"
_ATTEMPTS: Final = 5
_REMEMBERED_MS: Final = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class RawPuts:
    """The requests that a test sends; they run without the test.

    ``create(name, data)`` creates an object conditionally. ``delete`` works as
    ``Store.delete_many``.
    """

    create: Callable[[str, bytes], None]
    delete: Callable[[Sequence[str]], Mapping[str, StorageError]]


def is_known(provider: Provider, endpoint: str) -> bool:
    """Return whether an endpoint belongs to a service that documents put-if-absent."""
    host = (urlsplit(endpoint).hostname or "").lower()
    if _UNKNOWN_HOST_PART in host:
        return False
    return any(
        host.endswith(known) if known.startswith(".") else host == known
        for known in provider.documented_hosts
    )


class ProbeMemory:
    """The places that passed the test, in a small file of this user.

    Only successes are kept, for a week: a store that ignores the condition may be fixed at any
    time. If the file cannot be read or written, no place counts as tested.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        """Keep results in ``path``."""
        self._path, self._clock = path, clock

    @classmethod
    def of_user(cls) -> ProbeMemory:
        """Return the results in the user's cache directory (XDG Base Directory Specification)."""
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return cls(f"{cache}/deltactl/put-if-absent.json", SystemClock())

    def knows(self, place: str) -> bool:
        """Return whether a place passed the test within the last week."""
        found = self._load().get(place)
        age_ms = self._clock.now_ms() - found if isinstance(found, int) else -1
        return 0 <= age_ms < _REMEMBERED_MS

    def remember(self, place: str) -> None:
        """Record that a place passed the test now."""
        now = self._clock.now_ms()
        kept = {
            name: at
            for name, at in self._load().items()
            if isinstance(at, int) and 0 <= now - at < _REMEMBERED_MS
        }
        temporary = f"{self._path}.{uuid.uuid4().hex}"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            try:
                with open(temporary, "x", encoding="utf-8") as file:
                    json.dump({**kept, place: now}, file)
                # Of two runs at the same time, one result is lost; its store is tested again.
                os.replace(temporary, self._path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)

    def _load(self) -> dict[str, Any]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


class PutIfAbsentGuard:
    """Allow conditional puts only if this store is known to support them."""

    def __init__(self, provider: Provider, find_endpoint: Callable[[], str], bucket: str) -> None:
        """Check puts to a bucket."""
        self._provider, self._find_endpoint, self._bucket = provider, find_endpoint, bucket
        self._is_settled = False

    def settle(self, puts: RawPuts, where: str) -> None:
        """Check that the store supports conditional puts; do nothing if it was checked before.

        Raises:
            SafetyError: the store replaced an object, or has no conditional puts.
            StorageError: the check failed.
        """
        if self._is_settled:
            return
        endpoint = self._find_endpoint()
        if not is_known(self._provider, endpoint):
            memory = ProbeMemory.of_user()
            place = _place(endpoint, self._bucket)
            if not (endpoint and memory.knows(place)):
                _probe(puts, where)
                memory.remember(place)
        self._is_settled = True


def _place(endpoint: str, bucket: str) -> str:
    """Return the name of a place in the stored results, without a password in the endpoint."""
    address = urlsplit(endpoint)
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{address.path} {bucket}"


def _probe(puts: RawPuts, where: str) -> None:
    """Put an object twice, check that the second put is refused, and remove the object."""
    name = f"{PROBE_PREFIX}{uuid.uuid4()}"
    try:
        if not _is_refused(puts, name, where) and not _is_refused(puts, name, where):
            raise _refusal(where, "replaced an object in spite of the condition If-None-Match")
    finally:
        with suppress(StorageError):
            puts.delete([name])


def _is_refused(puts: RawPuts, name: str, where: str) -> bool:
    """Return whether the store refused to put the test object; retry transient errors.

    If the first put is refused, an earlier attempt has succeeded and its answer was lost.
    """
    retry = RetryPolicy()
    for failures in range(_ATTEMPTS):
        try:
            # Unlike a commit, this object may be put again.
            puts.create(name, b"1")
            return False
        except ObjectExistsError:
            return True
        except UnsupportedByStoreError as error:
            raise _refusal(where, f"has no conditional puts ({error.message})") from error
        except TransientStorageError:
            if failures == _ATTEMPTS - 1:
                raise
        retry.pause(failures)
    raise AssertionError("the last attempt returns or raises")


def _refusal(where: str, what: str) -> SafetyError:
    return SafetyError(
        f"the object store of {where} {what}: two writers could overwrite each other's commits",
        hint="Commit with --log-store dynamodb (see docs/object-store-commits.md), or move the"
        " table to a store that supports If-None-Match. Nothing was committed.",
    )
