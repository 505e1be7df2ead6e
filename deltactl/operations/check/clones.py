"""Check that a shallow clone is recorded in the tables whose files it has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from deltactl.errors import MALFORMED, DeltactlError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.clone_notes import CLONE, KIND_TAG, CloneNote, is_noted
from deltactl.operations.owners import Owner, find_owners, knows_files
from deltactl.storage.names import is_absolute_name

_LOOKED_UP: Final = 1000  # only for an advice


@dataclass(frozen=True, slots=True)
class ShallowSource:
    """What the commit of a shallow clone by deltactl says: its source, version and condition."""

    uri: str
    version: int
    predicate: str | None

    def recording(self, clone: str) -> str:
        """Return the command that writes the records of the clone again."""
        source, target = shlex.quote(self.uri), shlex.quote(clone)
        command = f"deltactl clone {source} {target} --shallow --version {self.version}"
        if self.predicate is None:
            return command
        return f"{command} --where {shlex.quote(self.predicate)}"


def find_source(info: Mapping[str, Any] | None) -> ShallowSource | None:
    """Return the source in a commitInfo; ``None`` if it is not of a shallow clone by deltactl."""
    if info is None or info.get("operation") != CLONE:
        return None
    try:
        if info["tags"][KIND_TAG] != "shallow":
            return None
        parameters = info["operationParameters"]
        predicate = parameters.get("predicate")
        return ShallowSource(
            # The path in a name of Delta on Spark is not escaped, so it is no URI.
            str(parameters["source"])[len("delta.`") : -1].removeprefix("file:"),
            int(parameters["sourceVersion"]),
            None if predicate is None else str(json.loads(predicate)[0]),
        )
    except (*MALFORMED, IndexError):
        return None


def check_records(
    snapshot: Snapshot,
    source: ShallowSource | None,
    directories: Iterable[str],
    storage_options: Mapping[str, str],
    findings: Findings,
) -> None:
    """Note the tables that have files of a shallow clone and no record of it.

    ``directories`` are those of the live files with absolute names. A table that cannot be opened
    is not noted.
    """
    if source is None:
        return
    uri = snapshot.store.uri
    note = CloneNote(uri, source.version, 0, snapshot.metadata.id)
    owners, _ = find_owners((f"{it}/" for it in directories), storage_options)
    for owner in owners:
        with suppress(DeltactlError):
            if not is_noted(owner.store, note, storage_options):
                advice = (
                    f"Run `{source.recording(uri)}`, which writes the record again and does not "
                    "change the clone"
                )
                if not _has_version(owner, source.version, snapshot, storage_options):
                    advice = (
                        f"It has no version {source.version} any longer, or was created again: "
                        "make a deep clone of the clone, if all its files exist"
                    )
                findings.note(
                    f"{owner.store.uri} has no record of this shallow clone, so a vacuum of it "
                    f"may delete files of the clone. {advice}"
                )


def _has_version(
    owner: Owner, version: int, clone: Snapshot, storage_options: Mapping[str, str]
) -> bool:
    """Return whether a source can rebuild a version, and knows a file of its clone."""
    if version not in DeltaLog(owner.store, ignore_warning).rebuildable({version}):
        return False
    batch = next(clone.file_batches(("path",)))["path"].slice(0, _LOOKED_UP)
    found, _ = find_owners(filter(is_absolute_name, batch.to_pylist()), storage_options)
    same = [it for it in found if it.store.uri == owner.store.uri]
    return not same or any(map(knows_files, same))
