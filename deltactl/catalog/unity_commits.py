"""Commits of catalog-managed tables in Unity Catalog.

Source: the Delta REST API of Unity Catalog (``loadTable``, ``updateTable``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from deltactl.catalog.http import Answer, HttpClient
from deltactl.catalog.managed import (
    BacklogFullError,
    ManagedState,
    RatifiedCommit,
)
from deltactl.errors import (
    MALFORMED,
    NotATableError,
    ObjectExistsError,
    SafetyError,
    StorageError,
    TransientStorageError,
)
from deltactl.protocol.actions import DomainMetadata
from deltactl.protocol.properties import TableProperties

EnsureOk = Callable[[Answer, str, str], None]

_DOMAINS: Final = ("delta.clustering", "delta.rowTracking")
"""The domains of which the catalog has a copy."""


class UnityCommits:
    """The commits of one table; see ``ManagedTable``."""

    def __init__(
        self, http: HttpClient, catalog: str, parts: Sequence[str], ensure_ok: EnsureOk
    ) -> None:
        """Send no request. ``ensure_ok`` explains answers that are errors."""
        self._http, self.catalog, self._ensure_ok = http, catalog, ensure_ok
        self._name = ".".join(parts)
        self._path = "/delta/v1/catalogs/{}/schemas/{}/tables/{}".format(*parts)

    def load(self) -> ManagedState:
        """Return what the catalog knows now; see ``ManagedTable.load``."""
        answer = self._http.get(self._path)
        if answer.status == HTTPStatus.NOT_FOUND and answer.has_error_body:
            raise NotATableError(f"{self.catalog} has no table {self._name} any more")
        self._ensure_ok(answer, f"read the commits of {self._name}", "SELECT on the table")
        try:
            return _read_state(answer.body)
        except MALFORMED as error:
            raise StorageError(
                f"{self.catalog} describes the commits of {self._name} in an unknown form"
            ) from error

    def add_commit(
        self, table_uuid: str, commit: RatifiedCommit, domains: Sequence[DomainMetadata]
    ) -> None:
        """Ask once to ratify a commit; see ``ManagedTable.add_commit``."""
        described = {
            "version": commit.version,
            "timestamp": commit.timestamp_ms,
            "file-name": commit.file_name,
            "file-size": commit.size_bytes,
            "file-modification-timestamp": commit.modified_ms,
        }
        self._update(table_uuid, {"action": "add-commit", "commit": described}, *_describe(domains))

    def report_published(self, table_uuid: str, version: int) -> None:
        """Say what is published; see ``ManagedTable.report_published``."""
        action = "set-latest-backfilled-version"
        self._update(table_uuid, {"action": action, "latest-published-version": version})

    def _update(self, table_uuid: str, *updates: Mapping[str, Any]) -> None:
        requirement = {"type": "assert-table-uuid", "uuid": table_uuid}
        body = {"requirements": [requirement], "updates": updates}
        answer = self._http.post_once(self._path, body)
        if answer.is_ok:
            return
        match answer.status:
            case HTTPStatus.CONFLICT if answer.error_type == "UpdateRequirementConflictException":
                raise SafetyError(
                    f"{self._name} is another table in {self.catalog} now: {answer.message}",
                    hint="Rerun: the table was dropped and created again during this run.",
                )
            case HTTPStatus.CONFLICT:
                raise ObjectExistsError(f"{self.catalog} has this version: {answer.message}")
            case HTTPStatus.TOO_MANY_REQUESTS:
                raise BacklogFullError(
                    f"{self.catalog} accepts no commit of {self._name} now: {answer.message}",
                    hint="Rerun when other writers have published their commits, or when the "
                    "catalog gets fewer requests. Nothing was committed.",
                )
            case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise TransientStorageError(
                    f"{self.catalog} failed (HTTP {status}): {answer.message}", hint="Rerun later."
                )
        self._ensure_ok(answer, f"commit to {self._name}", "MODIFY on the table")


def _read_state(body: Mapping[str, Any]) -> ManagedState:
    """Return the state in an answer. Servers write 64-bit numbers as strings, too."""
    commits = sorted(
        (
            RatifiedCommit(
                int(each["version"]),
                each["file-name"],
                int(each["file-size"]),
                int(each["file-modification-timestamp"]),
                int(each["timestamp"]),
            )
            for each in body.get("commits") or ()
        ),
        key=lambda commit: commit.version,
    )
    latest = int(body["latest-table-version"])
    if commits:
        last = commits[-1].version
        expected = range(last - len(commits) + 1, last + 1)
        if [commit.version for commit in commits] != [*expected] or last > latest:
            raise ValueError(commits)
        if not all(isinstance(commit.file_name, str) for commit in commits):
            raise ValueError("a commit without a file")
    metadata = body["metadata"]
    return ManagedState(
        str(metadata["table-uuid"]),
        latest,
        tuple(commits),
        frozenset(map(str, body.get("allowed-maintenance-operations") or ())),
        bool(TableProperties(metadata.get("properties") or {}).uniform_formats),
    )


def _describe(domains: Sequence[DomainMetadata]) -> list[Mapping[str, Any]]:
    """Return the update for domain metadata, if the catalog has a copy of it."""
    found = {
        each.domain: json.loads(each.configuration) for each in domains if each.domain in _DOMAINS
    }
    return [{"action": "set-domain-metadata", "updates": found}] if found else []
