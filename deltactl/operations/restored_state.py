"""The state after a restore or the sync of a clone, and its commit.

Source: PROTOCOL.md, "Identity Columns", "Column Mapping", "In-Commit Timestamps", "Domain
Metadata"; the rules of RESTORE in Delta on Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from deltactl.errors import MALFORMED, ConflictError, CorruptLogError
from deltactl.log.commits.contents import find_actions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import (
    ENABLEMENT_TIMESTAMP,
    ENABLEMENT_VERSION,
    Actions,
    as_removes,
    with_data_change,
)
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN, read_high_water_mark
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn, is_same_metadata
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.clustering import CLUSTERING_DOMAIN
from deltactl.protocol.features import ROW_TRACKING, has_feature, merge_protocols
from deltactl.protocol.properties import PROTECTED_BEFORE, ROW_TRACKING_COLUMN_KEYS, TableProperties

_MARK: Final = "delta.identity.highWaterMark"
_START: Final = "delta.identity.start"
_STEP: Final = "delta.identity.step"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_MAX_COLUMN_ID: Final = "delta.columnMapping.maxColumnId"

_ENABLEMENT: Final = (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
_NO_CLUSTERING: Final = '{"clusteringColumns":[],"domainName":"delta.clustering"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCommit:
    """Add and remove files (rows of ``ADD_SCHEMA``), and restore a state.

    Any change of other writers conflicts, except commits that have only a commitInfo (for example
    of a vacuum) or a ``txn``.

    Attributes:
        description: of the commit.
        read_version: the version with which the files were compared.
        added: the files to add.
        removed: the files to remove.
        again: live files to add again, with other row ids or statistics.
        state: the state to restore; ``None``: it stays as it is.
        ensure: is called before each attempt; raises an error if a state does not allow the commit.
        txn: the transaction identifier to write.
        done: the verb in messages, for example: nothing was ``restored``.
        hint: what to do if a change of another writer conflicts.
    """

    description: Description
    read_version: int
    added: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)
    state: RestoredState | None
    ensure: Callable[[CommitBase], None]
    again: pa.Table = field(default_factory=ADD_SCHEMA.empty_table, repr=False)
    txn: Txn | None = None
    done: str = "restored"
    hint: str = (
        "Run `deltactl describe-history TABLE` to see the other writer's change. Rerun only if you "
        "want to undo that change too."
    )

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        self.ensure(base)
        state = self.state
        added = with_data_change(self.added, True), with_data_change(self.again, False)
        return Actions(
            description=self.description,
            read_version=self.read_version,
            protocol=None if state is None else state.protocol,
            metadata=None if state is None else state.metadata,
            enables_timestamps=state is not None and state.enables_timestamps,
            added=pa.concat_tables(added),
            removed=as_removes(self.removed, data_change=True),
            domains=() if state is None else state.domains,
            txn=self.txn,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        reason = None
        if concurrent.add_rows.num_rows or concurrent.remove_rows.num_rows:
            reason = "another writer added or removed files"
        elif concurrent.changes_table:
            reason = "another writer changed the table's schema, properties or protocol"
        elif concurrent.non_file_actions.domains:
            reason = "another writer changed the table's domain metadata"
        if reason is not None:
            raise ConflictError(f"nothing was {self.done}: {reason} during the run", hint=self.hint)


@dataclass(frozen=True, slots=True)
class RestoredState:
    """Protocol and metadata after a restore, and the domain actions to write.

    ``enables_timestamps``: the restore turns on in-commit timestamps, from its own version on.
    """

    protocol: Protocol
    metadata: Metadata
    domains: tuple[DomainMetadata, ...] = ()
    enables_timestamps: bool = False


@dataclass(frozen=True, slots=True)
class PastMarks:
    """High-water marks that neither the current version nor the target of a restore has.

    ``schemas``: those of the commits between them, with the marks of identity columns;
    ``row_ids``: their ``domainMetadata`` actions of row tracking.
    """

    schemas: Sequence[str] = ()
    row_ids: Sequence[DomainMetadata] = ()


def restored_state(
    current: Snapshot,
    target: Snapshot,
    protocol: Protocol | None = None,
    past: PastMarks = PastMarks(),
) -> RestoredState:
    """Return the state after a restore.

    It is the state of the target, except for values that must not decrease or be removed (column
    ids, high-water marks, protocol features). ``protocol`` is the protocol after it; by default the
    protocol with the features of both versions. ``past``: see ``read_past_marks``.
    """
    before, wanted = current.metadata, target.metadata
    configuration = _keep_growing(before.configuration, wanted.configuration)
    has_timestamps = TableProperties(wanted.configuration).in_commit_timestamps
    if has_timestamps:
        # Times of versions are found with these properties, so they must be those of the whole log.
        for key in _ENABLEMENT:
            configuration.pop(key, None)
            if key in before.configuration:
                configuration[key] = before.configuration[key]
    schema = wanted.schema_string
    for other in (before.schema_string, *past.schemas):
        schema = _keep_high_water_marks(schema, other)
    protocol = protocol or merge_protocols(current.protocol, target.protocol)
    if has_feature(protocol, ROW_TRACKING):
        for key in ROW_TRACKING_COLUMN_KEYS:
            if key in before.configuration:
                configuration.setdefault(key, before.configuration[key])
    return RestoredState(
        protocol,
        replace(wanted, schema_string=schema, configuration=configuration),
        tuple(_domain_changes(current.domains, target.domains, past.row_ids)),
        has_timestamps and not current.properties.in_commit_timestamps,
    )


def read_past_marks(log: DeltaLog, current: Snapshot, target: Snapshot) -> PastMarks:
    """Read the commits between two versions if the current one lacks marks that the target has.

    The last marks of an identity column or of row tracking, from before they were dropped or the
    table was replaced, are then only there. Files of those versions can be restored later, with
    their values and row ids.
    """
    wanted, known = (_identity_names(it.metadata.schema_string) for it in (target, current))
    mark, wanted_mark = (read_high_water_mark(it.domains) for it in (current, target))
    lacks_mark = has_feature(target.protocol, ROW_TRACKING) and mark < max(wanted_mark, 0)
    is_replaced = bool(wanted) and current.metadata.id != target.metadata.id
    is_behind = is_replaced or are_marks_behind(current.metadata, target.metadata)
    if wanted <= known and not (is_behind or lacks_mark):
        return PastMarks()
    schemas, row_ids = [], []
    try:
        for commit in log.commits(range(target.version + 1, current.version)):
            for node in find_actions(commit.name, commit.data, "metaData"):
                schemas.append(str(node.get("schemaString")))
            for node in find_actions(commit.name, commit.data, "domainMetadata"):
                if node.get("domain") == ROW_TRACKING_DOMAIN and not node.get("removed"):
                    row_ids.append(
                        DomainMetadata(ROW_TRACKING_DOMAIN, str(node.get("configuration")))
                    )
    except CorruptLogError as error:
        log.warn(
            f"after the restore of version {target.version}, identity columns or row ids may get "
            f"values that later versions have: {error.message}"
        )
    return PastMarks(schemas, row_ids)


def are_marks_behind(current: Metadata, earlier: Metadata) -> bool:
    """Return whether an identity column generates values again that the earlier version has."""
    schema = current.schema_string
    return _keep_high_water_marks(schema, earlier.schema_string) != schema


def is_same_state(state: RestoredState, current: Snapshot) -> bool:
    """Return whether a restore changes only files."""
    return (
        state.protocol == current.protocol
        and is_same_metadata(state.metadata, current.metadata)
        and not state.domains
    )


def _keep_growing(before: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Keep numbers that must not decrease: column ids, and the mark of protected history."""
    kept = dict(wanted)
    for key in (_MAX_COLUMN_ID, PROTECTED_BEFORE):
        numbers = [int(of[key]) for of in (before, wanted) if of.get(key, "").isdecimal()]
        if numbers and (key in wanted or key == PROTECTED_BEFORE):
            kept[key] = str(max(numbers))
    return kept


def _domain_changes(
    current: Mapping[str, DomainMetadata],
    target: Mapping[str, DomainMetadata],
    past: Sequence[DomainMetadata],
) -> Iterator[DomainMetadata]:
    """Yield the actions that restore the clustering columns and remove all other domains.

    Domains belong to their writers and describe a later version. The high-water mark of row ids
    never decreases; those of the target and of ``past`` are greater if row tracking was dropped.
    """
    wanted = target.get(CLUSTERING_DOMAIN)
    if wanted is None and CLUSTERING_DOMAIN in current:
        wanted = DomainMetadata(CLUSTERING_DOMAIN, _NO_CLUSTERING)
    if wanted is not None and wanted != current.get(CLUSTERING_DOMAIN):
        yield wanted
    for name, domain in current.items():
        if name not in (CLUSTERING_DOMAIN, ROW_TRACKING_DOMAIN):
            yield replace(domain, removed=True)
    marks = [target, *({ROW_TRACKING_DOMAIN: domain} for domain in past)]
    furthest = max(marks, key=read_high_water_mark)
    if read_high_water_mark(furthest) > read_high_water_mark(current):
        yield furthest[ROW_TRACKING_DOMAIN]


def _keep_high_water_marks(schema_string: str | None, current: str | None) -> str | None:
    """Return a schema whose high-water marks are at least as far as those of the current schema.

    With an earlier mark, values would be generated a second time. If no mark must be raised, the
    schema is returned unchanged.
    """
    try:
        schema = json.loads(schema_string or "")
        marks = {_name(f): f["metadata"] for f in _identity_fields(json.loads(current or ""))}
        changed = [_raise(f["metadata"], marks.get(_name(f))) for f in _identity_fields(schema)]
    except (*MALFORMED, RecursionError):
        return schema_string
    if not any(changed):
        return schema_string
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _identity_fields(schema: Any) -> list[dict[str, Any]]:
    return [field for field in schema["fields"] if _START in (field.get("metadata") or {})]


def _identity_names(schema: str | None) -> set[str]:
    try:
        return {_name(field) for field in _identity_fields(json.loads(schema or ""))}
    except (*MALFORMED, RecursionError):
        return set()


def _name(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get(_PHYSICAL_NAME, field["name"]))


def _raise(metadata: dict[str, Any], current: Mapping[str, Any] | None) -> bool:
    """Use the current mark if it is further; return whether it is."""
    if current is None or current.get(_MARK) is None:
        return False
    step = int(metadata.get(_STEP, 1))
    mark, other = metadata.get(_MARK), int(current[_MARK])
    further = max if step > 0 else min
    kept = other if mark is None else further(int(mark), other)
    if kept == mark:
        return False
    metadata[_MARK] = kept
    return True
