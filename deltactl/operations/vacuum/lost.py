"""The error of a vacuum: files that the table needs were removed, or files were not removed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.errors import (
    ConflictError,
    DeltactlError,
    FileMissingError,
    PartialSuccessError,
    explain_rest,
)
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.vacuum.report import VacuumReport


def find_vacuum_error(report: VacuumReport, table: str, advice: str = "") -> DeltactlError | None:
    """Return the error of a vacuum; see ``find_lost_error``, whose error comes first."""
    failed = _describe_failures(report)
    lost = find_lost_error(report, table, advice)
    if lost is not None and failed is not None and not report.was_replaced:
        return FileMissingError(f"{lost.message}; and {failed}", hint=lost.hint)
    if lost is not None:
        return lost
    if failed is None:
        return None
    removed = f"{format_count(report.files_removed, 'file was', 'files were')} removed."
    cause = report.find_worst_failure()
    if isinstance(cause, ConflictError):
        return PartialSuccessError(failed, hint=f"Rerun the command. {removed}")
    hint = (cause.hint or "Fix the cause, then rerun.") + f" {removed}"
    return explain_rest(cause, failed, hint=hint)


def _describe_failures(report: VacuumReport) -> str | None:
    texts = []
    if stayed := [it for it in report.failures if it.path]:
        files = format_count(len(stayed), "file", "files")
        texts.append(f"{files} could not be removed: {stayed[0].path}: {stayed[0].reason}")
    if report.stopped is not None:
        texts.append(f"the vacuum stopped early: {report.stopped.message}")
    return "; and ".join(texts) or None


def find_lost_error(report: VacuumReport, table: str, advice: str = "") -> FileMissingError | None:
    """Return the error about files that a vacuum removed and the table needs, if there are any.

    ``advice`` is for a run without a quarantine.
    """
    if not report.lost:
        return None
    where, is_kept = shlex.quote(table), report.quarantined_until_ms is not None
    undo = f"`deltactl vacuum {where} --undo {report.run_id}`"
    if not report.was_replaced:
        hint = f"Run {undo} to restore these files: the table needs them."
        return FileMissingError(
            describe_lost(report.lost), hint=hint if is_kept else hint_at_lost(table, advice)
        )
    files = format_count(len(report.lost), "file", "files")
    check = f"`deltactl check {where}`, which lists the files that are still missing."
    if is_kept:
        hint = f"Run {undo}, then {check} Copy those back from the backup."
    else:
        hint = (
            "Restore the table from the backup again, or copy these files from it. Then run "
            f"{check}{advice}"
        )
    return FileMissingError(
        f"the table was replaced during the vacuum, and the table that is there now lacks {files} "
        f"that this run removed: {report.lost[0]}",
        hint=hint,
    )


def describe_lost(lost: Sequence[str]) -> str:
    """Return the text about removed files that another writer started to use."""
    files = format_count(len(lost), "file", "files")
    return f"another writer started using {files} during the deletion: {lost[0]}"


def hint_at_lost(table: str, advice: str = "") -> str:
    """Return what to do about lost files that are in no quarantine, and an advice."""
    return (
        f"Copy these files back from a backup. Or run `deltactl restore {shlex.quote(table)} "
        f"--to-version VERSION` to return to a version that does not need them.{advice}"
    )
