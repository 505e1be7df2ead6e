"""Explain missing files of a version to restore, and decide whether it may be restored without."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, SafetyError
from deltactl.log.commits.changes import sum_rows
from deltactl.log.find_files import find_files, is_placed
from deltactl.log.snapshot import Snapshot
from deltactl.operations.history.diff import COUNTED_COLUMNS, files_of_one_side
from deltactl.operations.lost_files import (
    find_kept_refusal,
    find_loss_refusal,
    find_lost,
    find_replaced,
)
from deltactl.operations.missing_files import GONE, Missing, list_missing, needs_missing
from deltactl.operations.predicate.parse import parse_predicate
from deltactl.operations.restore.plan import RestorePlan, Versions, select_files
from deltactl.operations.restore.vacuums import find_whole_version
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.past_vacuums import (
    PastVacuum,
    describe_vacuums,
    find_past_vacuums,
    list_undos,
)
from deltactl.operations.vacuum_commits import find_vacuum_commits
from deltactl.option_names import option
from deltactl.units import format_count

_SHOWN: Final = 20
_LOOKED_UP: Final = 1000  # only for a hint


def find_omission_refusal(
    versions: Versions,
    plan: RestorePlan,
    missing: Sequence[Missing],
    expected: int | None,
    context: RunContext,
) -> SafetyError | None:
    """Return why the version must not be restored without the files that cannot be read.

    ``missing`` are those of the plan, or some of them, to look up again. ``expected`` is the number
    of the files that cannot be read, as the user gave it.
    """
    uri = versions.log.uri
    lost = find_lost(versions.target, missing, context.storage_options)
    return (
        find_kept_refusal(uri, plan.lost, plan.removed, plan.missing, lost)
        or _find_useless(plan)
        or find_loss_refusal(
            uri, lost, plan.lost.num_rows, plan.wanted_files, expected, version=plan.target_version
        )
    )


def _find_useless(plan: RestorePlan) -> SafetyError | None:
    """Return the refusal of a restore that would bring no row back, and remove others."""
    wanted, removed = _only_in(plan.lost, plan.removed), _only_in(plan.removed, plan.lost)
    if plan.added.num_rows or not wanted.num_rows or not removed.num_rows:
        return None
    if plan.lost.num_rows == plan.wanted_files:
        return None  # refused in other words
    return SafetyError(
        f"none of the {format_count(wanted.num_rows, 'file')} that only version "
        f"{plan.target_version} has can be read: a restore would only remove "
        f"{_describe_files(removed)} of the latest version",
        hint="Copy the files back, or restore another version.",
    )


def _only_in(files: pa.Table, others: pa.Table) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files["path"], value_set=others["path"])))


def _describe_files(files: pa.Table) -> str:
    """Return the number of files, and that of their rows if it is known."""
    rows = sum_rows(files)
    text = format_count(files.num_rows, "other file")
    return text if rows is None else f"{text} ({format_count(rows, 'row')})"


def explain_missing(versions: Versions, plan: RestorePlan, context: RunContext) -> SafetyError:
    """Return the error for missing files of the target: the files, the reason, and the remedies."""
    log = versions.log
    paths = [it.path for it in plan.missing]
    past = find_past_vacuums(log.store, paths, context.storage_options, log.warn)
    message = (
        f"{format_count(plan.lost.num_rows, 'file', 'files')} of version {plan.target_version} "
        f"cannot be read: {list_missing(plan.unreadable)}{_explain_removal(versions, plan, past)}"
    )
    ways, why = list_undos(past), ""
    if not ways:  # else it would be refused to omit the files
        replaced = find_replaced(plan.lost, plan.missing)
        ways.append(
            "move the files that have another size out of the table, and copy the right ones back "
            "from a backup"
            if replaced
            else "copy the missing files back from a backup"
        )
        gone = pa.array([it.path for it in plan.missing if it.problem == GONE], pa.string())
        if pc.any(pc.is_in(plan.removed["path"], value_set=gone)).as_py():
            ways.append(_offer_latest(versions.current, gone))
        omit = option("ignore_missing", True)
        refusal = _find_hinted_refusal(versions, plan, context)
        if refusal is None:
            number = option("expect_files", plan.lost.num_rows)
            way = f"rerun with {omit} and {number} to restore the version without them"
            if (removed := _only_in(plan.removed, plan.lost)).num_rows:
                way += f": this removes {_describe_files(removed)} of the latest version"
            ways.append(way)
        else:
            why = f" {omit} would be refused: {refusal.message}. {refusal.hint or ''}".rstrip()
    ways += _offer_whole_version(versions, plan, context)
    return SafetyError(message, hint=f"Do one of these: {'; '.join(ways)}.{why}")


def _offer_latest(current: Snapshot, gone: pa.Array) -> str:
    """Return the remedy that keeps the latest version, or the way out if it has no files.

    ``gone`` are names of files that do not exist.
    """
    if _has_files(current, gone):
        return (
            f"run `deltactl check {shlex.quote(current.store.uri)} --fix missing-files`, which "
            "keeps the latest version, without the files that do not exist"
        )
    return (
        "remount the storage of the table, if it is away: no file of the latest version exists "
        "either; create the table again, if no version has all its files"
    )


def _has_files(snapshot: Snapshot, gone: pa.Array) -> bool:
    """Return whether a data file exists, or is on other storage; stop at the first."""
    for batch in snapshot.file_batches(("path",)):
        names = batch["path"].filter(pc.invert(pc.is_in(batch["path"], value_set=gone)))
        for start in range(0, len(names), _LOOKED_UP):
            part = names.slice(start, _LOOKED_UP).to_pylist()
            found, elsewhere = find_files(snapshot.store, [it for it in part if is_placed(it)])
            if elsewhere or any(found.values()):
                return True
    return False


def _find_hinted_refusal(
    versions: Versions, plan: RestorePlan, context: RunContext
) -> DeltactlError | None:
    """Return why the files must not be omitted, with the right number; look up only some."""
    number = plan.lost.num_rows
    try:
        return find_omission_refusal(versions, plan, plan.missing[:_LOOKED_UP], number, context)
    except DeltactlError as error:
        return error


def _offer_whole_version(versions: Versions, plan: RestorePlan, context: RunContext) -> list[str]:
    """Return the remedy that loses most: the last version before the target with all its files.

    With ``where``, it must have files of these partitions: else, a restore only removes files.
    """
    log, target, missing = versions.log, versions.target.version, plan.missing
    whole = find_whole_version(log, target, [it.path for it in missing])
    if whole is None:
        return []
    predicate = None
    try:
        if plan.predicate is not None:
            fields = versions.current.metadata.partition_fields
            predicate = parse_predicate(plan.predicate, fields, context.clock.now_ms())
        snapshot = log.retry_after_cleanup(lambda: log.snapshot(whole))
        batches = snapshot.file_batches(["partition_values"])
        if not any(select_files(batch, predicate).num_rows for batch in batches):
            return []
        lacking, _ = files_of_one_side(versions.current, snapshot, COUNTED_COLUMNS)
    except DeltactlError:
        return []
    lacking = select_files(lacking, predicate)
    lacking = lacking.filter(pc.invert(needs_missing(lacking, missing)))
    same = "" if predicate is None else f" with the same {option('where')}"
    return [
        f"restore version {whole}{same}, the last version before version {target} that has all its "
        f"files: this removes {_describe_files(lacking)} of the latest version"
    ]


def _explain_removal(versions: Versions, plan: RestorePlan, past: tuple[PastVacuum, ...]) -> str:
    if past:
        return describe_vacuums(past)
    log = versions.log
    ended = log.retry_after_cleanup(lambda: find_vacuum_commits(log, plan.target_version))
    if not ended:
        return "; the log has no vacuum since then"
    shown = ", ".join(map(str, ended[:_SHOWN]))
    return f"; vacuums since then: version {shown} (no record of them has these files)"
