"""Refuse or warn of a shallow clone that its readers could not read, or that a vacuum may break."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from deltactl.errors import (
    ConflictError,
    SafetyError,
    StorageError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.clone.places import are_on_other_servers
from deltactl.operations.clone.plan import ClonePlan, names_of
from deltactl.operations.clone.tasks import explain_missing
from deltactl.operations.leases import list_leases
from deltactl.operations.missing_files import (
    PRESENCE_COLUMNS,
    find_missing,
    list_missing,
)
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum_commits import describe_start, find_open_vacuums
from deltactl.option_names import option
from deltactl.storage.names import parse_scheme
from deltactl.storage.store import Store


def warn_of_limits(target: Store, plan: ClonePlan, context: RunContext) -> None:
    """Warn of actions that break a shallow clone, and of those that it does not allow."""
    context.warn(
        "a shallow clone needs the files of its source. If a tool other than deltactl vacuums the "
        f"source, the clone may become unreadable. {option('deep', True)} creates an independent "
        "table"
    )
    try:
        target.real_names(list_directories(plan))
    except StorageError:
        context.warn(
            "deltactl cannot optimize or vacuum this clone, because its files are on another kind "
            f"of storage; use {option('deep', True)} to get a table that it can"
        )


def ensure_addresses(source: Store) -> None:
    """Refuse a source whose addresses other programs cannot open.

    Raises:
        SafetyError: only fsspec knows the form of the address: a chain, or ``local://``.
    """
    scheme = parse_scheme(source.uri) or ""
    if "::" in scheme or scheme == "local":
        raise SafetyError(
            f"the log of a shallow clone would have addresses {scheme}://, which other programs"
            " cannot open",
            hint=f"Use {option('deep', True)}.",
        )


def open_as_reader(source: DeltaLog, target: DeltaLog) -> DeltaLog:
    """Return the log of the source, opened with the storage options of the clone.

    So do the readers of the clone open the files.

    Raises:
        SafetyError: with these options, the address of the source is on another server.
        StorageError, UsageError: the storage cannot be opened with these options.
    """
    options = target.storage_options
    if options == source.storage_options:
        return source
    reader = DeltaLog.open(source.uri, options, warn=source.warn, read_only=True)
    if are_on_other_servers(source.store, reader.store):
        raise SafetyError(
            f"with the storage options of the clone, {source.uri} is on another server, so the "
            "clone could not read its files",
            hint=_give_same_options(),
        )
    return reader


def _give_same_options() -> str:
    return (
        f"Use {option('deep', True)}, which copies the files. Or give source and clone the same "
        f"{option('storage_options')}."
    )


def ensure_present(
    source: DeltaLog, reader: DeltaLog, snapshot: Snapshot, plan: ClonePlan, context: RunContext
) -> None:
    """Refuse to refer to files that do not exist, or that have another size than in the log.

    ``reader`` opens them as readers of the clone do; see ``open_as_reader``.

    Raises:
        DataFileError: the message lists them.
        SafetyError: they exist, but not for the readers of the clone.
        NotATableError, ConflictError, StorageError: the source was deleted, replaced or moved.
    """
    batches = [plan.files.select(PRESENCE_COLUMNS)]
    missing = find_missing(reader.store, batches, context.of_log(reader), everywhere=True)
    own = missing
    if missing and reader is not source:
        own = find_missing(source.store, batches, context.of_log(source), everywhere=True)
    if own != missing:
        raise SafetyError(
            f"with the storage options of the clone, {list_missing(missing)} cannot be read",
            hint=_give_same_options(),
        )
    if missing:
        # By their names in the source, as the journals of vacuums have them.
        root = f"{plan.source_uri}/"
        named = tuple(replace(it, path=it.path.removeprefix(root)) for it in missing)
        CommitBase.of(snapshot).ensure_same_table(source)
        raise explain_missing(snapshot.store, named, source.storage_options, context.warn)


def ensure_no_vacuum(source: DeltaLog, plan: ClonePlan, context: RunContext) -> None:
    """Refuse to refer to files that a vacuum may be removing, if it did not read the note.

    A vacuum reads the notes after its START commit. If its START is not in the log now, the vacuum
    will read this note before it removes a file. If its END is in the log, it removes nothing more.
    Between START and END, it keeps the files that were live just before START or were added later.

    Raises:
        ConflictError: vacuums began after the version of the clone, and hold leases.
        SafetyError: one of them holds no lease; it was perhaps killed, and will never end.
    """

    def look() -> list[tuple[str, str | None]]:
        found = find_open_vacuums(source).items()
        return [(describe_start(source, it), run) for it, run in found if it > plan.version + 1]

    unfinished = source.retry_after_cleanup(look)
    if not unfinished:
        return
    running = {it.run_id for it in list_leases(source.store, context.clock.now_ms())}
    lost = [start for start, run in unfinished if run not in running]
    deep = option("deep", True)
    may_remove = f"It may be removing files of version {plan.version}, so no table was created"
    if not lost:
        raise ConflictError(
            f"the vacuum that began in {unfinished[-1][0]} has not ended. {may_remove}",
            hint=f"Rerun when the vacuum has ended. Or use {deep}.",
        )
    raise SafetyError(
        f"the vacuum that began in {lost[-1]} has not ended, or was killed (no VACUUM END commit). "
        f"{may_remove}",
        hint="Rerun when the vacuum has ended. If it was killed, no rerun succeeds: clone the "
        f"latest version, or use {deep}.",
    )


def list_directories(plan: ClonePlan) -> list[str]:
    """Return the directories of the clone's files and vectors, each once."""
    directories = pc.replace_substring_regex(names_of(plan.files), r"/[^/]*$", "")
    return sorted(pc.unique(directories).to_pylist())
