"""The texts of ``deltactl explain`` for each error code.

The codes are those of the classes in ``deltactl.errors``; a test compares the two lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.errors import DeltactlError


@dataclass(frozen=True, slots=True)
class Explanation:
    """An error code for people: meaning, causes, state of the table, what to do."""

    meaning: str
    causes: tuple[str, ...]
    table: str
    remedies: tuple[str, ...]


_UNTOUCHED: Final = "Nothing was changed."
_FAILED_BEFORE_COMMIT: Final = (
    "Earlier commits are complete. Files that were written but not committed belong to no version; "
    "a vacuum on a terminal removes them."
)

_KEPT: Final = "Finished work was committed and is complete."

EXPLANATIONS: Final = {
    "FAILED": Explanation(
        "A run failed for a reason without its own code.",
        ("The result could not be written, because the disk is full or the terminal was closed.",),
        _FAILED_BEFORE_COMMIT,
        ("Read the message. Rerun with --debug to see a traceback.",),
    ),
    "INTERNAL": Explanation(
        "An internal error. This is a bug in deltactl.",
        ("The log, a file or the environment has a property that no test of deltactl covers.",),
        _FAILED_BEFORE_COMMIT,
        ("Rerun with --debug, and report the traceback and the table's protocol.",),
    ),
    "USAGE": Explanation(
        "An option or argument is wrong, or options cannot be combined.",
        (
            "A misspelled option or value, or a size or a time without a unit.",
            "An invalid DELTACTL_ variable or line of deltactl.toml.",
        ),
        _UNTOUCHED,
        (
            "See `deltactl COMMAND --help`.",
            "See `deltactl config` for all settings and their origin.",
        ),
    ),
    "PREDICATE": Explanation(
        "The predicate of --where cannot be parsed, or uses columns that are not partition "
        "columns.",
        (
            "A column that is not a partition column of this table.",
            "Quotes that the shell removed. Put the whole predicate in quotes.",
        ),
        _UNTOUCHED,
        (
            "See the partition columns with `deltactl describe-detail TABLE`.",
            "Write --where \"day >= '2024-01-01'\".",
        ),
    ),
    "TABLE": Explanation(
        "The state of the table does not allow the request.",
        ("Content of the log that contradicts the protocol or itself.",),
        _UNTOUCHED,
        ("See the versions with `deltactl describe-history TABLE`.",),
    ),
    "NOT_A_TABLE": Explanation(
        "There is no Delta table at this path: no _delta_log with commits or a checkpoint.",
        (
            "A misspelled path, or a partition directory inside a table.",
            "A directory of plain Parquet files.",
        ),
        _UNTOUCHED,
        (
            "Give the directory that contains _delta_log.",
            "Convert plain Parquet files to a table with `deltactl convert DIR`.",
        ),
    ),
    "VERSION_NOT_FOUND": Explanation(
        "The log cannot rebuild the requested version or time.",
        (
            "The version is newer than the latest, or a log cleanup deleted it.",
            "The time is before the first commit that the log still has.",
        ),
        _UNTOUCHED,
        ("See the versions and their times with `deltactl describe-history TABLE --all`.",),
    ),
    "LOG_CORRUPT": Explanation(
        "A file of the transaction log is invalid; the message names the file.",
        (
            "A write or copy that was interrupted, or a tool that edited the log.",
            "A checkpoint that was damaged in storage.",
        ),
        _UNTOUCHED,
        (
            "See which versions are damaged with `deltactl describe-history TABLE`.",
            "Rewrite invalid checkpoints with `deltactl checkpoint TABLE --repair`.",
            "Restore an invalid commit file from a backup or an older version of the object.",
        ),
    ),
    "LOG_GAP": Explanation(
        "Commits are missing between the checkpoint and the requested version.",
        (
            "Commit files were deleted by hand or by a lifecycle rule of the store.",
            "A copy of the table without some files.",
        ),
        _UNTOUCHED,
        (
            "See which versions can still be rebuilt with `deltactl describe-history TABLE`.",
            "Restore the missing files, or read a version after the gap.",
        ),
    ),
    "LOG_ACTION_MISSING": Explanation(
        "The log has no protocol or no metaData action up to the requested version.",
        (
            "Version 0 was deleted and no checkpoint is complete.",
            "The directory _delta_log exists, but contains other files.",
        ),
        _UNTOUCHED,
        (
            "See which versions are left with `deltactl describe-history TABLE`. Restore the "
            "first files of the log from a backup.",
        ),
    ),
    "LOG_FILE_MISSING": Explanation(
        "A checkpoint or sidecar that the log refers to is missing.",
        (
            "While deltactl read the log, several log cleanups deleted files that it needed.",
            "The file was deleted by hand, or lost.",
        ),
        _UNTOUCHED,
        (
            "Rerun: after a log cleanup, the log has a newer checkpoint.",
            "If the file stays missing, run `deltactl check TABLE --checkpoints` to see whether "
            "other files can rebuild the table. Then write a new checkpoint with `deltactl "
            "checkpoint TABLE`.",
        ),
    ),
    "DATA_FILE": Explanation(
        "A data file or deletion vector is missing, invalid, or not as the log describes it.",
        (
            "The file was deleted without a commit, or by a vacuum whose retention was too short.",
            "A file that was replaced, truncated or encrypted.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "See which versions have all their files with `deltactl describe-history TABLE "
            "--restorable`.",
            "If a vacuum moved the file to quarantine, run `deltactl vacuum TABLE --undo last`.",
            "Restore the file from a backup.",
        ),
    ),
    "FILE_MISSING": Explanation(
        "A data file or deletion vector that the log references does not exist.",
        (
            "A vacuum whose retention was too short deleted it, or a lifecycle rule of the bucket.",
            "A program deleted it without a commit.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "See which versions have all their files with `deltactl describe-history TABLE "
            "--restorable`, and restore one with `deltactl restore TABLE --to-version N`.",
            "If a vacuum with --quarantine moved the file, or the bucket keeps object versions, "
            "run `deltactl vacuum TABLE --undo last`.",
            "Copy the file back from a backup or from a deep clone.",
            "To go on without its rows, run `deltactl restore TABLE --to-version N "
            "--ignore-missing` with the latest version.",
        ),
    ),
    "VERIFICATION": Explanation(
        "The written rows differ from the live rows of the input files.",
        ("A defect in memory, storage or a library, or a bug in deltactl.",),
        "Files that failed the check were deleted and not committed.",
        (
            "Rerun. If the run fails again with the same file, report the error.",
            "If each run fails with another file, check the machine.",
        ),
    ),
    "CONFLICT": Explanation(
        "Another writer committed a change that conflicts with this one.",
        ("A concurrent change of the same files, of the schema, or of the protocol.",),
        "The other writer's commit is valid; changes that conflict with it were not committed.",
        (
            "Rerun: this is safe.",
            "Skip partitions that are being written with `deltactl optimize --skip-hot 1h`.",
        ),
    ),
    "COMMIT_UNKNOWN": Explanation(
        "It is not known whether a commit was written. The store did not confirm it, and "
        "deltactl could not read it back.",
        ("The network or the store failed during the commit and did not recover.",),
        "The commit exists completely or not at all. Its data files were kept, because the commit "
        "may list them.",
        (
            "Run `deltactl describe-history TABLE --limit 5` to see whether the version exists.",
            "Rerun when the store is available again.",
        ),
    ),
    "COMMIT_DAMAGED": Explanation(
        "The run committed a version, but the commit was overwritten or deleted, or files that it "
        "adds were deleted.",
        (
            "A vacuum of another tool deleted new files, because its retention was shorter than "
            "the run.",
            "Another writer looks whether a commit exists and then puts its own, as Delta on Spark "
            "does with the S3SingleDriverLogStore.",
        ),
        "deltactl kept all new files. If files of the version are missing, the version before it "
        "is complete.",
        (
            "If files are missing, run the `deltactl restore` command that the hint gives.",
            "If the commit was overwritten, stop the other writers and run `deltactl check TABLE`.",
        ),
    ),
    "FILES_GONE": Explanation(
        "Files that the run wrote or found were deleted before their commit.",
        (
            "A vacuum ran at the same time, and its retention was shorter than this run.",
            "Another program deleted the files.",
        ),
        "Nothing was committed by this part of the run. The table is unchanged.",
        (
            "Rerun when the vacuum has ended.",
            "Raise delta.deletedFileRetentionDuration above the duration of the longest run.",
        ),
    ),
    "PARTIAL": Explanation(
        "A part of the work is committed. Nothing is broken, and a rerun does the rest.",
        (
            "Another writer changed or removed some of the files during the run.",
            "The time or the budget of the run was used up.",
        ),
        "All commits are complete; the other files are unchanged.",
        ("Rerun. The new run does only the remaining work.",),
    ),
    "SAFETY": Explanation(
        "A rule that protects data refused the run.",
        (
            "The retention of the run is shorter than the retention of the table.",
            "Unusually many files are in no commit of the log. The directory may be wrong.",
            "The command needs a confirmation, but --yes was not given and there is "
            "no terminal to ask on.",
            "The table has a record of a shallow clone, but vacuum cannot read this clone.",
        ),
        _UNTOUCHED,
        (
            "Rerun with --dry-run first.",
            "Read the hint. If an option overrides the rule, the hint names this option.",
        ),
    ),
    "CONVERSION": Explanation(
        "Files of the directory cannot become one table.",
        (
            "Types of a column that differ between files, or names that Delta forbids.",
            "Directories with different partition columns.",
        ),
        _UNTOUCHED,
        (
            "See each file, column and reason with `deltactl convert DIR -o csv`.",
            "Try --schema-mode widen, --column-mapping, or --partition-by.",
        ),
    ),
    "UNSUPPORTED_FEATURE": Explanation(
        "The table has a table feature that does not allow this operation.",
        ("A newer writer enabled a feature that this version of deltactl does not support.",),
        _UNTOUCHED,
        (
            "See the features, and what deltactl can do, with `deltactl describe-detail TABLE`.",
            "Use a newer deltactl, or the engine that enabled the feature.",
        ),
    ),
    "STORAGE": Explanation(
        "A request to the store failed or was refused.",
        (
            "The network, a full disk, or a limit on the number of requests.",
            "A file system that cannot stop a writer from replacing an existing file. On such a "
            "file system, two writers could overwrite each other's commits.",
        ),
        _FAILED_BEFORE_COMMIT,
        ("Rerun; the message has the file and the store's own error.",),
    ),
    "OBJECT_NOT_FOUND": Explanation(
        "The store has no file with this name.",
        ("A misspelled path, or a file that was deleted just before it was read.",),
        _UNTOUCHED,
        ("Check the name. If a log cleanup or a vacuum ran at the same time, rerun.",),
    ),
    "OBJECT_EXISTS": Explanation(
        "deltactl must create a new file, but a file with this name exists already.",
        ("Another writer created it first.",),
        "The existing file was not replaced.",
        ("Rerun.",),
    ),
    "UNREACHABLE": Explanation(
        "There is no connection to the store.",
        (
            "A misspelled endpoint or account, or a bucket in another region.",
            "No network, a firewall, or a wrong proxy.",
        ),
        _FAILED_BEFORE_COMMIT,
        ("Check the host that the message names, and HTTPS_PROXY. Then rerun.",),
    ),
    "BUCKET_NOT_FOUND": Explanation(
        "The store has no bucket or container of this name.",
        ("A misspelled name, another account, or another endpoint.",),
        _UNTOUCHED,
        ("Check the name, and the endpoint or account.",),
    ),
    "ACCESS_DENIED": Explanation(
        "The permissions do not allow this request.",
        (
            "A role that may read but not list, write or delete.",
            "Local files of another user.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "Give the missing permission, which the hint names.",
            "A dry run only needs permission to read and to list.",
        ),
    ),
    "CREDENTIALS_MISSING": Explanation(
        "No credentials were found for the store.",
        ("They are not set in this environment, for example in cron or in a container.",),
        _UNTOUCHED,
        ("Set the variables that the hint names, or use --storage-option.",),
    ),
    "CREDENTIALS_REFUSED": Explanation(
        "The store does not accept the credentials.",
        ("A misspelled key or secret, a deleted key, or a key of another account.",),
        _FAILED_BEFORE_COMMIT,
        ("Correct the credentials: the hint lists where deltactl looks for them.",),
    ),
    "CREDENTIALS_EXPIRED": Explanation(
        "The credentials have expired.",
        ("A session, a token or a signature (SAS) with a limited life.",),
        _FAILED_BEFORE_COMMIT,
        ("Sign in again, or set a new token. Then rerun.",),
    ),
    "MEMORY": Explanation(
        "The process could not get more memory or threads.",
        (
            "The limit on the address space of the process (`ulimit -v`), or the limit of its "
            "cgroup.",
            "Row groups of the input files that are larger than the memory.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "Raise the limit.",
            "Use less memory: `deltactl optimize --max-concurrent 1 --memory 256MiB`.",
        ),
    ),
    "ENGINE_UNAVAILABLE": Explanation(
        "The requested engine cannot run here.",
        ("No Java, no PySpark, or a cluster or Spark Connect server that does not respond.",),
        _UNTOUCHED,
        (
            "See what is installed with `deltactl --version -v`.",
            "Use --engine local: it does the same work in one process.",
        ),
    ),
    "INTERRUPTED": Explanation(
        "A signal ended the run: exit status 130 for SIGINT (Ctrl-C), 143 for SIGTERM.",
        ("A person, a time limit of the scheduler, or a shutdown of the machine.",),
        _KEPT,
        ("Rerun to finish the rest.",),
    ),
    "TIMEOUT": Explanation(
        "The run was stopped by --timeout: exit status 5, or 1 if nothing was finished.",
        ("More work than the time allows.", "One task that takes longer than the time limit."),
        _KEPT,
        (
            "Rerun to finish the rest: each run continues where the last one ended.",
            "Allow more time, or less work in a run: `deltactl optimize --max-bytes 50GiB`.",
        ),
    ),
    "NOT_BEGUN": Explanation(
        "The run skipped this table, because another table failed and --fail-fast was given.",
        ("The output has the error of the table that failed.",),
        _UNTOUCHED,
        ("Fix the cause, then rerun. To continue after a failure, omit --fail-fast.",),
    ),
    "LEASE_HELD": Explanation(
        "Another run of the same command is running on this table.",
        (
            "A cron job that started before the last one ended.",
            "A run that was killed on another machine. Its lease expires within 15 minutes.",
        ),
        _UNTOUCHED,
        (
            "Rerun later. The message shows the holder of the lease and when the lease expires.",
            "Use --no-lease to run now. Two runs at a time are safe, but may do the same work "
            "twice.",
        ),
    ),
}


def load_error_classes(root: type[DeltactlError] = DeltactlError) -> dict[str, type[DeltactlError]]:
    """Return every class of error by its code, in the order of the tree."""
    found = {root.code: root}
    for error in root.__subclasses__():
        found |= load_error_classes(error)
    return found
