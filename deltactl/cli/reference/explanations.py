"""What ``deltactl explain`` says about each error code.

The codes are those of the classes in ``deltactl.errors``; a test compares the two lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.errors import DeltactlError


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code for people: what it means, why it comes up, how the table is left, what to do."""

    meaning: str
    causes: tuple[str, ...]
    table: str
    remedies: tuple[str, ...]


_UNTOUCHED: Final = "Nothing was changed."
_FAILED_BEFORE_COMMIT: Final = (
    "What was committed before stays and is whole. Files that were written and not committed are "
    "named by no version; a vacuum removes them."
)

_KEPT: Final = "What had finished was committed and is whole."

EXPLANATIONS: Final = {
    "FAILED": Explanation(
        "A run failed for a reason that has no code of its own.",
        ("The result could not be written: a full disk, a closed terminal.",),
        _FAILED_BEFORE_COMMIT,
        ("Read the message; run again with --debug to see where it came from.",),
    ),
    "INTERNAL": Explanation(
        "deltactl did something that its authors did not foresee. This is a bug.",
        ("A shape of log, file or environment that no test has.",),
        _FAILED_BEFORE_COMMIT,
        ("Run again with --debug, and report the traceback with the table's protocol.",),
    ),
    "USAGE": Explanation(
        "An option or argument is wrong, or options exclude each other.",
        (
            "A misspelt option or value; a size or a time without its unit.",
            "A DELTACTL_ variable or a line of deltactl.toml that cannot be understood.",
        ),
        _UNTOUCHED,
        (
            "See `deltactl COMMAND --help`.",
            "See `deltactl config` for what is set, and where.",
        ),
    ),
    "PREDICATE": Explanation(
        "The predicate of --where cannot be parsed, or asks about more than partition columns.",
        (
            "A column that is not a partition column of this table.",
            "Quotes that the shell took away: the whole predicate has to stand in quotes.",
        ),
        _UNTOUCHED,
        (
            "See the partition columns with `deltactl describe-detail TABLE`.",
            "Write --where \"day >= '2024-01-01'\".",
        ),
    ),
    "TABLE": Explanation(
        "The table, as it is, cannot serve the request.",
        ("Contents of the log that contradict the protocol or each other.",),
        _UNTOUCHED,
        ("See what is there with `deltactl describe-history TABLE`.",),
    ),
    "NOT_A_TABLE": Explanation(
        "There is no Delta table at this place: no _delta_log with commits or a checkpoint.",
        (
            "A misspelt path, or a partition folder inside a table.",
            "A directory of plain Parquet files.",
        ),
        _UNTOUCHED,
        (
            "Name the folder that holds _delta_log.",
            "Make plain Parquet files a table with `deltactl convert DIR`.",
        ),
    ),
    "VERSION_NOT_FOUND": Explanation(
        "The version or time asked for lies outside what the log can rebuild.",
        (
            "The version is newer than the latest, or older than what log cleanup kept.",
            "The time lies before the first commit that is left.",
        ),
        _UNTOUCHED,
        ("See the versions and their times with `deltactl describe-history TABLE --all`.",),
    ),
    "LOG_CORRUPT": Explanation(
        "A file of the transaction log is broken; the message names the file.",
        (
            "A writer or a copy that was cut off, or a tool that edited the log.",
            "A checkpoint that was damaged in storage.",
        ),
        _UNTOUCHED,
        (
            "See how far the damage goes with `deltactl describe-history TABLE`.",
            "Write broken checkpoints anew with `deltactl checkpoint TABLE --repair`.",
            "Restore a broken commit file from a backup or the store's older object versions.",
        ),
    ),
    "LOG_GAP": Explanation(
        "Commits are missing between the checkpoint and the version asked for.",
        (
            "Commit files were deleted by hand or by a lifecycle rule of the store.",
            "A copy of the table that left files out.",
        ),
        _UNTOUCHED,
        (
            "See which versions can still be rebuilt with `deltactl describe-history TABLE`.",
            "Restore the missing files, or read a version on this side of the gap.",
        ),
    ),
    "LOG_ACTION_MISSING": Explanation(
        "Up to the version asked for the log holds no protocol or no metaData action.",
        (
            "Version 0 was deleted and no checkpoint is whole.",
            "A directory that only looks like a log.",
        ),
        _UNTOUCHED,
        ("See what is left with `deltactl describe-history TABLE`, and restore the first files.",),
    ),
    "LOG_FILE_MISSING": Explanation(
        "A checkpoint or sidecar that the log names is gone.",
        (
            "A log cleanup removed it while it was wanted, time and again.",
            "It was deleted by hand, or lost.",
        ),
        _UNTOUCHED,
        (
            "Run again: a newer checkpoint is there after a cleanup.",
            "If it stays away, `deltactl check TABLE --checkpoints` tells whether other files "
            "still rebuild the table, and `deltactl checkpoint TABLE` then writes a new one.",
        ),
    ),
    "DATA_FILE": Explanation(
        "A data file or deletion vector is missing, broken, or not what the log says of it.",
        (
            "The file was deleted outside Delta, or by a vacuum with too short a retention.",
            "A file that was replaced, cut off, or encrypted.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "See which versions are whole with `deltactl describe-history TABLE --restorable`.",
            "If a vacuum moved it to quarantine: `deltactl vacuum TABLE --undo last`.",
            "Restore the file from a backup.",
        ),
    ),
    "VERIFICATION": Explanation(
        "The rows that were written do not equal the live rows of the inputs.",
        ("A defect in memory, storage or a library, or a bug in deltactl.",),
        "Nothing of what failed the check was committed; the outputs were removed.",
        (
            "Run again; if it fails again with the same file, report it.",
            "Look for a defect of the machine if it fails with a different file each time.",
        ),
    ),
    "CONFLICT": Explanation(
        "Another writer committed a change that this one could not be put on top of.",
        ("A concurrent change of the same files, of the schema, or of the protocol.",),
        "The other writer's commit stands; what conflicts with it was not committed.",
        (
            "Run again: that is safe, and the reason for exit status 4.",
            "Leave partitions at work alone with `deltactl optimize --skip-hot 1h`.",
        ),
    ),
    "COMMIT_UNKNOWN": Explanation(
        "The store did not tell whether a commit landed, and reading back did not settle it.",
        ("The network or the store failed in the middle of the commit, and stayed away.",),
        "The commit is there as a whole or not at all. Outputs were kept, for it may name them.",
        (
            "See with `deltactl describe-history TABLE --limit 5` whether the version is there.",
            "Run again once the store answers.",
        ),
    ),
    "PARTIAL": Explanation(
        "Some tasks failed, or lost to another writer; what finished is committed.",
        (
            "Single files that cannot be read, or workers that were lost.",
            "Another writer who changed or removed some of the files in the meantime.",
        ),
        "Everything committed is whole; the files that failed are as they were.",
        ("Mend the cause that the message names, and run again: only the rest is done.",),
    ),
    "SAFETY": Explanation(
        "A rule that protects data refused the run.",
        (
            "A retention below that of the table.",
            "More files than usual that no commit names: perhaps the wrong folder.",
            "A question that nobody could be asked.",
        ),
        _UNTOUCHED,
        (
            "Look at --dry-run first.",
            "The hint names the option that overrides the rule, where there is one.",
        ),
    ),
    "CONVERSION": Explanation(
        "Files of the directory cannot become one table.",
        (
            "Types of a column that differ between files, or names that Delta forbids.",
            "Folders that do not agree on the partition columns.",
        ),
        _UNTOUCHED,
        (
            "The list names each file, column and reason: `deltactl convert DIR -o csv`.",
            "Try --schema-mode widen, --column-mapping, or --partition-by.",
        ),
    ),
    "UNSUPPORTED_FEATURE": Explanation(
        "The table uses a table feature that this operation must not touch.",
        ("A newer writer enabled a feature that this version of deltactl does not know.",),
        _UNTOUCHED,
        (
            "See the features, and what deltactl can do, with `deltactl describe-detail TABLE`.",
            "Use a newer deltactl, or the engine that enabled the feature.",
        ),
    ),
    "STORAGE": Explanation(
        "The store refused or failed.",
        (
            "The network, a full disk, or a limit of requests.",
            "A file system that cannot create a file only if it is not there.",
        ),
        _FAILED_BEFORE_COMMIT,
        ("Try again; see the message for the file and the store's own words.",),
    ),
    "OBJECT_NOT_FOUND": Explanation(
        "The store holds nothing under this name.",
        ("A misspelt place, or a file that was deleted while it was about to be read.",),
        _UNTOUCHED,
        ("Check the name; run again if somebody else was cleaning up.",),
    ),
    "OBJECT_EXISTS": Explanation(
        "A file that had to be new is there already.",
        ("Another writer took the name first.",),
        "What was there was not replaced.",
        ("Rerun.",),
    ),
    "ACCESS_DENIED": Explanation(
        "Credentials or permissions do not allow this.",
        (
            "Credentials that are missing, expired, or for another account.",
            "A role that may read but not list, write or delete.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "Check the environment's credentials, or give them with --storage-option.",
            "A dry run needs to read and list only.",
        ),
    ),
    "MEMORY": Explanation(
        "The process got no more memory, or no more threads.",
        (
            "A limit on its address space (`ulimit -v`) or of its cgroup.",
            "Row groups of the inputs that are larger than the memory there is.",
        ),
        _FAILED_BEFORE_COMMIT,
        (
            "Raise the limit.",
            "Ask for less at a time: `deltactl optimize --max-concurrent 1 --memory 256MiB`.",
        ),
    ),
    "ENGINE_UNAVAILABLE": Explanation(
        "The engine that was asked for cannot run here.",
        ("No Java, no PySpark, or a cluster or Spark Connect server that does not answer.",),
        _UNTOUCHED,
        (
            "See what is installed with `deltactl --version -v`.",
            "Use --engine local: it does the same work in one process.",
        ),
    ),
    "INTERRUPTED": Explanation(
        "A signal ended the run: 130 for SIGINT (Ctrl-C), 143 for SIGTERM.",
        ("You, a time limit of the scheduler, or the machine shutting down.",),
        _KEPT,
        ("Rerun to do the rest.",),
    ),
    "TIMEOUT": Explanation(
        "The run was stopped by its --timeout: exit status 5, or 1 where nothing was finished.",
        ("More to do than fits into the time.", "A task that takes longer than the time alone."),
        _KEPT,
        (
            "Run again to do the rest: each run goes on where the last one ended.",
            "Give more time, or less to do at once: `deltactl optimize --max-bytes 50GiB`.",
        ),
    ),
    "NOT_BEGUN": Explanation(
        "One table of several was not begun: another one failed, and --fail-fast was given.",
        ("The error of the table that failed is told with it.",),
        _UNTOUCHED,
        ("Mend the cause and run again, or leave --fail-fast away.",),
    ),
    "LEASE_HELD": Explanation(
        "Another run of the same command is at work on this table.",
        (
            "A cron job that began before the last one had ended.",
            "A run that was killed on another machine: what it left expires within 15 minutes.",
        ),
        _UNTOUCHED,
        (
            "Run again later; the message says who is at work, and until when at most.",
            "Use --no-lease to go ahead: two runs at a time waste work and harm nothing.",
        ),
    ),
}


def load_error_classes(root: type[DeltactlError] = DeltactlError) -> dict[str, type[DeltactlError]]:
    """Give every class of error by its code, in the order of the tree."""
    found = {root.code: root}
    for error in root.__subclasses__():
        found |= load_error_classes(error)
    return found
