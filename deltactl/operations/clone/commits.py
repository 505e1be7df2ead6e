"""Build the commit of a clone, and find the latest commit of a clone in a target.

Source: the operation CLONE of Delta on Spark; ``predicate`` and ``properties`` are only in commits
of deltactl.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import MALFORMED, SafetyError, TableError
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_info import Description, engine_info, run_tags
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.operations.clone.plan import ClonePlan
from deltactl.operations.clone_notes import CLONE, KIND_TAG
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.actions import Txn, is_same_metadata

APP_ID: Final = "deltactl.clone"
_SOURCE_ID_TAG: Final = "deltactl.cloneSourceId"
_COMMIT_TAG: Final = "deltactl.cloneSourceCommit"
_WHERE_TAG: Final = "deltactl.cloneWhere"

_PROTOCOL: Final = "its protocol was changed"


@dataclass(frozen=True, slots=True)
class PastClone:
    """A commit of a clone by deltactl, in ``version`` of the target.

    ``source_commit`` is the digest of the commit of the source; ``None`` if it is not known, as
    after a run of an earlier release. ``predicate`` has the time of that run as a literal;
    ``where`` is the condition as it was given.
    """

    version: int
    deep: bool
    source_table_id: str
    source_version: int
    source_commit: str | None
    predicate: str | None
    where: str | None
    properties: Mapping[str, str] = field(default_factory=dict)


def app_id(source_table_id: str) -> str:
    """Return the application whose ``txn`` in a deep clone is the version of the source."""
    return f"{APP_ID}:{source_table_id}"


def clone_txn(plan: ClonePlan, now_ms: int) -> Txn | None:
    """Return the ``txn`` of a deep clone; shallow clones have none, as in Delta on Spark."""
    return Txn(app_id(plan.source_table_id), plan.version, now_ms) if plan.deep else None


def describe_clone(
    plan: ClonePlan,
    properties: Mapping[str, str],
    context: RunContext,
    copied: tuple[int, int] = (0, 0),
    removed: tuple[int, int] = (0, 0),
) -> Description:
    """Return the description of a commit; ``copied`` and ``removed``: files and bytes."""
    name = f"delta.`{plan.source_uri}`"
    parameters: dict[str, Any] = {"source": name, "sourceVersion": plan.version}
    if plan.predicate is not None:
        parameters["predicate"] = json.dumps([plan.predicate], ensure_ascii=False)
    if properties:
        parameters["properties"] = json.dumps(dict(properties), ensure_ascii=False)
    kind = "deep" if plan.deep else "shallow"
    tags = {**run_tags(context.run_id), _SOURCE_ID_TAG: plan.source_table_id, KIND_TAG: kind}
    if plan.source_commit is not None:
        tags[_COMMIT_TAG] = plan.source_commit
    if plan.where is not None:
        tags[_WHERE_TAG] = plan.where
    return Description(
        operation=CLONE,
        parameters=parameters,
        metrics={
            "removedFilesSize": str(removed[1]),
            "numRemovedFiles": str(removed[0]),
            "sourceTableSize": str(plan.size_bytes),
            "numCopiedFiles": str(copied[0]),
            "copiedFilesSize": str(copied[1]),
            "sourceNumOfFiles": str(plan.num_files),
        },
        engine_info=engine_info(context.engine.name),
        tags=tags,
        user_metadata=f"{kind} clone of version {plan.version} of {plan.source_uri}",
    )


def find_past_clone(target: DeltaLog) -> PastClone | None:
    """Return the latest commit of a clone by deltactl in the target's log, if there is one."""
    for version in sorted(target.commit_files, reverse=True):
        [commit] = target.commits([version])
        found = _parse(version, commit.info)
        if found is not None:
            return found
    return None


def _parse(version: int, info: Mapping[str, Any] | None) -> PastClone | None:
    if info is None or info.get("operation") != CLONE:
        return None
    try:
        tags, parameters = info["tags"], info["operationParameters"]
        predicate = parameters.get("predicate")
        predicate = None if predicate is None else str(json.loads(predicate)[0])
        return PastClone(
            version,
            tags[KIND_TAG] == "deep",
            str(tags[_SOURCE_ID_TAG]),
            int(parameters["sourceVersion"]),
            tags.get(_COMMIT_TAG),
            predicate,
            tags.get(_WHERE_TAG, predicate),
            {str(k): str(v) for k, v in json.loads(parameters.get("properties", "{}")).items()},
        )
    except (*MALFORMED, IndexError):
        return None


def ensure_unchanged(
    log: DeltaLog,
    current: Snapshot,
    past: PastClone | None,
    then: Snapshot | None,
    source: Snapshot,
) -> PastClone:
    """Refuse a clone with changes of others: a sync would undo them. Return its last clone run.

    ``then`` is the version of that run. Commits that only move rows, commits without files, and
    changes that a restore discarded are allowed.

    Raises:
        SafetyError: the message says what changed.
    """
    where = shlex.quote(current.store.uri)
    txn = current.txns[app_id(source.metadata.id)]
    if past is None or not past.deep or past.source_version != txn.version:
        raise SafetyError(
            f"the log of {where} no longer has the commit of the last clone run. So it is "
            "unknown whether the clone was changed after that run",
            hint=f"Add {option('full', True)} to replace the clone's files with those of the "
            "source.",
        )
    reason = find_change(log, current, past.version, lambda: then)
    if reason is None:
        return past
    full = option("full", True)
    hint = f"Add {full} to replace the clone's files and state with those of the source."
    if reason != _PROTOCOL:  # a restore keeps the protocol
        hint = (
            f"Run `deltactl describe-history {where}` to see the changes. Run `deltactl restore "
            f"{where} --to-version {past.version}` to discard them, or add {full}."
        )
    raise SafetyError(
        f"{where} was changed after the last clone run, which copied version {txn.version} of the "
        f"source: {reason}",
        hint=hint,
    )


def find_change(
    log: DeltaLog, current: Snapshot, version: int, load_then: Callable[[], Snapshot | None]
) -> str | None:
    """Return what the commits after a version changed.

    ``None``: they only rearranged rows, or a restore discarded the changes. ``load_then`` returns
    the version, if it can be read; it is called only if there are changes.
    """
    reason = _find_change(log, current, version)
    then = None if reason is None else load_then()
    if then is None:
        return reason
    if _is_as_cloned(current, then):
        return None
    return _find_change(log, current, version, then) or reason


def _find_change(
    log: DeltaLog, current: Snapshot, version: int, then: Snapshot | None = None
) -> str | None:
    """Return what the commits after a version changed; ``None`` if they only rearranged rows.

    With the version ``then``, actions of the commits that change nothing of it do not count.
    """
    first, last = version + 1, current.version
    if not log.has_commits(first, last):
        return "its log is not complete"
    changes = _DataChanges()
    tail = log.replay(range(first, last + 1), current.metadata.partition_keys, changes)
    news = tail.non_file_actions
    if news.protocol is not None and (then is None or then.protocol != current.protocol):
        return _PROTOCOL
    is_same = then is not None and is_same_metadata(current.metadata, then.metadata)
    if news.metadata is not None and not is_same:
        return "its schema or properties were changed"
    is_same = then is not None and _domains(current) == _domains(then)
    if set(news.domains) - {ROW_TRACKING_DOMAIN} and not is_same:
        return "its domain metadata were changed"
    return "rows were added or removed" if changes.found else None


class _DataChanges(Visitor):
    """Find whether a commit adds or removes rows, also if a later one moves them."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit(self, commits: ParsedCommits) -> None:
        for files in (commits.adds, commits.removes):
            self.found |= bool(pc.any(files["data_change"]).as_py())


def load_version(log: DeltaLog, version: int, current: Snapshot | None = None) -> Snapshot | None:
    """Return a version; ``None`` if it cannot be read, as after a log cleanup."""
    if current is not None and version == current.version:
        return current
    with suppress(TableError):
        return log.snapshot(version)
    return None


def _is_as_cloned(current: Snapshot, then: Snapshot) -> bool:
    """Return whether the changes since a version were discarded, as by a restore."""
    return (
        current.protocol == then.protocol
        and is_same_metadata(current.metadata, then.metadata)
        and _domains(current) == _domains(then)
        and _keys(current) == _keys(then)
    )


def _domains(snapshot: Snapshot) -> dict[str, str]:
    return {
        name: domain.configuration
        for name, domain in snapshot.domains.items()
        if name != ROW_TRACKING_DOMAIN and not domain.removed
    }


def _keys(snapshot: Snapshot) -> pa.ChunkedArray:
    return sorted_keys(snapshot.file_batches(KEY_COLUMNS))


def sorted_keys(batches: Iterable[pa.Table]) -> pa.ChunkedArray:
    """Return the keys of files, to compare two versions."""
    chunks = [chunk for batch in batches for chunk in file_keys(batch).chunks]
    found = pa.chunked_array(chunks, pa.string())
    return found.take(pc.sort_indices(found)).combine_chunks()
