"""Every error deltactl raises: one tree, each leaf with a stable code and an exit status.

    DeltactlError                     exit 1
    ├── UsageError                    exit 2   an option or argument is wrong
    │   └── PredicateError                     a --where that cannot be parsed or answered
    ├── TableError                    exit 1   the table, as it is, cannot serve the request
    │   ├── NotATableError                     no _delta_log with commits at this place
    │   ├── VersionNotFoundError               time travel out of range
    │   ├── CorruptLogError                    a log file is broken
    │   │   ├── LogGapError                    versions are missing
    │   │   ├── MissingActionError             no protocol or metaData
    │   │   └── MissingLogFileError            a file that the log names is gone
    │   ├── DataFileError                      a data file or deletion vector is missing or broken
    │   └── VerificationError                  rewritten rows do not equal the live input rows
    ├── ConflictError                 exit 4   lost to a concurrent writer; may be tried again
    │   ├── CommitOutcomeUnknownError          the store did not say whether a commit landed
    │   └── LeaseHeldError                     the same command is at work on this table
    ├── PartialSuccessError           exit 5   some tasks failed, the rest is committed
    │   ├── TimeLimitError                     the time was up (exit 1 where nothing was finished)
    │   └── NotBegunError                      a table of several whose turn never came
    ├── SafetyError                   exit 6   refused by a safety rule
    │   └── ConversionError                    files of a directory that cannot become a table
    ├── UnsupportedFeatureError       exit 7   a table feature this operation must not touch
    ├── StorageError                  exit 8   the store said no
    │   ├── ObjectNotFoundError                no such file
    │   ├── ObjectExistsError                  put-if-absent found the name taken
    │   └── AccessDeniedError                  credentials or permissions
    ├── OutOfMemoryError              exit 1   the process got no more memory
    ├── EngineUnavailableError        exit 9   the engine asked for cannot run here
    ├── InterruptedRunError           exit 130 a signal ended the run (143 for SIGTERM)
    └── InternalError                 exit 1   a bug in deltactl, dressed for the user

A message says what failed, on which file or version, and why; ``hint`` says what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeAlias

Warn: TypeAlias = Callable[[str], None]
"""Receives warnings, such as an invalid ``_last_checkpoint``; they do not stop the run."""


MALFORMED: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What access to JSON of an unexpected form raises; ``OverflowError`` for infinite numbers."""


def first_line(error: BaseException, most: int = 200) -> str:
    """Return the first line of a library's message, at most ``most`` characters; may be empty."""
    return next(iter(str(error).splitlines()), "")[:most]


def ignore_warning(message: str) -> None:
    """Discard the warning."""


class DeltactlError(Exception):
    """Base of all errors that deltactl raises on purpose."""

    code: ClassVar[str] = "FAILED"
    exit_code: int = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DeltactlError):
    """An option or argument is wrong."""

    code = "USAGE"
    exit_code = 2


class PredicateError(UsageError):
    """A predicate cannot be parsed, or asks about something other than partition columns."""

    code = "PREDICATE"


class TableError(DeltactlError):
    """The table, as it is, cannot serve the request."""

    code = "TABLE"


class NotATableError(TableError):
    """No Delta log with commits at this place."""

    code = "NOT_A_TABLE"


class VersionNotFoundError(TableError):
    """The version or timestamp asked for is outside what the log can rebuild."""

    code = "VERSION_NOT_FOUND"


class CorruptLogError(TableError):
    """A file of the transaction log is broken; the message names file and version."""

    code = "LOG_CORRUPT"


class LogGapError(CorruptLogError):
    """Versions are missing between the checkpoint and the version asked for."""

    code = "LOG_GAP"


class MissingActionError(CorruptLogError):
    """The log holds no protocol or no metaData action up to the version asked for."""

    code = "LOG_ACTION_MISSING"


class MissingLogFileError(CorruptLogError):
    """A file that the log names, or that was listed in it, is gone: lost, or just cleaned up."""

    code = "LOG_FILE_MISSING"


class DataFileError(TableError):
    """A data file or deletion vector is missing, broken, or not what the log says."""

    code = "DATA_FILE"


class VerificationError(TableError):
    """Rewritten rows do not equal the live rows of the inputs; nothing was committed."""

    code = "VERIFICATION"


class ConflictError(DeltactlError):
    """A concurrent writer won; running again may succeed."""

    code = "CONFLICT"
    exit_code = 4
    retryable = True


class CommitOutcomeUnknownError(ConflictError):
    """The store did not tell whether a commit landed, and reading back did not settle it."""

    code = "COMMIT_UNKNOWN"


class LeaseHeldError(ConflictError):
    """Another run of the same command is at work on this table."""

    code = "LEASE_HELD"


class PartialSuccessError(DeltactlError):
    """Some tasks failed, or lost to another writer; what finished is committed."""

    code = "PARTIAL"
    exit_code = 5


class TimeLimitError(PartialSuccessError):
    """The time that the run was given is up; what finished is committed.

    ``exit_code`` is 1 where nothing was finished: there is no success to be a part of.
    """

    code = "TIMEOUT"
    retryable = True

    def __init__(self, message: str, *, is_part_done: bool = True, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = PartialSuccessError.exit_code if is_part_done else DeltactlError.exit_code


class NotBegunError(PartialSuccessError):
    """A table of several that was not begun, because another one failed."""

    code = "NOT_BEGUN"
    retryable = True


class SafetyError(DeltactlError):
    """Refused by a rule that protects data."""

    code = "SAFETY"
    exit_code = 6


class ConversionError(SafetyError):
    """Files of a directory that cannot become a table; ``problems`` has all of them.

    Each problem is (path, column or ``None``, why).
    """

    code = "CONVERSION"

    def __init__(
        self,
        message: str,
        *,
        problems: Sequence[tuple[str, str | None, str]] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class UnsupportedFeatureError(DeltactlError):
    """The table uses a feature that this operation must not touch."""

    code = "UNSUPPORTED_FEATURE"
    exit_code = 7


class StorageError(DeltactlError):
    """The store refused or failed."""

    code = "STORAGE"
    exit_code = 8


class ObjectNotFoundError(StorageError):
    """The store holds nothing under this name."""

    code = "OBJECT_NOT_FOUND"


class ObjectExistsError(StorageError):
    """Put-if-absent found the name taken."""

    code = "OBJECT_EXISTS"


class AccessDeniedError(StorageError):
    """Credentials or permissions do not allow this."""

    code = "ACCESS_DENIED"


class OutOfMemoryError(DeltactlError):
    """The process got no more memory, or no more threads."""

    code = "MEMORY"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(
            message,
            hint=hint
            or "Raise the limit (`ulimit -v`, the cgroup's), or use less memory: "
            "--max-concurrent 1, --memory, --target-size.",
        )


class EngineUnavailableError(DeltactlError):
    """The engine asked for cannot run here."""

    code = "ENGINE_UNAVAILABLE"
    exit_code = 9


class InterruptedRunError(DeltactlError):
    """A signal ended the run; ``exit_code`` is 128 plus the signal's number.

    ``is_part_done`` tells whether anything had been finished by then.
    """

    code = "INTERRUPTED"
    exit_code = 130

    def __init__(
        self,
        message: str,
        *,
        signal_number: int = 2,
        is_part_done: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 128 + signal_number
        self.is_part_done = is_part_done


class InternalError(DeltactlError):
    """A mistake of ours: only the program raises it, in place of what nobody foresaw."""

    code = "INTERNAL"


def explain_foreign(what: str, error: Exception) -> DeltactlError:
    """Give an error of ours as it is, and for any other one that says ``what`` failed."""
    match error:
        case DeltactlError():
            return error
        case MemoryError():
            return OutOfMemoryError(f"{what} failed: no memory was left")
        case _:
            return DeltactlError(f"{what} failed: {type(error).__name__}: {error}")
