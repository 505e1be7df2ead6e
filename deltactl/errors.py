"""Define all errors that deltactl raises, each class with a stable code and an exit status.

    DeltactlError                     exit 1
    ├── UsageError                    exit 2   an option or argument is wrong
    │   └── PredicateError                     a --where that is not valid
    ├── TableError                    exit 1   the table is not valid for the request
    │   ├── NotATableError                     no _delta_log with commits at this address
    │   ├── VersionNotFoundError               time travel out of range
    │   ├── CorruptLogError                    a log file is not valid
    │   │   ├── LogGapError                    versions are missing
    │   │   ├── MissingActionError             no protocol or metaData
    │   │   └── MissingLogFileError            a file that the log names does not exist
    │   ├── DataFileError                      a data file or deletion vector is not valid
    │   │   └── FileMissingError               it does not exist
    │   ├── VerificationError                  rewritten rows do not equal the live input rows
    │   └── CommitDamagedError                 what this run committed was overwritten or deleted
    ├── ConflictError                 exit 4   a concurrent writer won; a retry may succeed
    │   ├── CommitOutcomeUnknownError          the store did not say whether it committed
    │   ├── FilesGoneError                     files of the run were deleted or changed
    │   └── LeaseHeldError                     the same command is running on this table
    ├── PartialSuccessError           exit 5   the rest needs a rerun, nothing is broken
    │   ├── TimeLimitError                     the time limit is over (exit 1 if nothing finished)
    │   ├── NotBegunError                      one of several tables, which was not started
    │   └── SearchIncompleteError              a search did not cover everything
    ├── SafetyError                   exit 6   a safety rule refuses the request
    │   └── ConversionError                    files of a directory that cannot become a table
    ├── UnsupportedFeatureError       exit 7   a table feature that the operation does not support
    ├── StorageError                  exit 8   the store refused or failed
    │   ├── TransientStorageError              a retry may succeed
    │   │   └── UnreachableError               no connection to the store
    │   ├── UnsupportedByStoreError            the store does not have this request
    │   ├── ObjectNotFoundError                no such file
    │   ├── ObjectExistsError                  put-if-absent found an existing file
    │   ├── BucketNotFoundError                no such bucket or container
    │   └── AccessDeniedError                  no permission
    │       ├── CredentialsMissingError        no credentials found
    │       ├── CredentialsRefusedError        wrong credentials
    │       └── CredentialsExpiredError        expired credentials
    ├── OutOfMemoryError              exit 1   the process could not allocate memory
    ├── EngineUnavailableError        exit 9   the requested engine is not available
    ├── InterruptedRunError           exit 130 a signal ended the run (143 for SIGTERM)
    └── InternalError                 exit 1   a bug in deltactl

A message says what failed, on which file or version, and why; ``hint`` says what to do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import ClassVar, Final, TypeAlias

Warn: TypeAlias = Callable[[str], None]
"""Receives warnings, such as an invalid ``_last_checkpoint``; they do not stop the run."""


MALFORMED: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""Errors of access to JSON of an unexpected form; ``OverflowError`` is for infinite numbers."""


def first_line(error: BaseException, most: int = 200) -> str:
    """Return the first line of a library's message, at most ``most`` characters; may be empty."""
    return next(iter(str(error).splitlines()), "")[:most]


def join_reasons(reasons: Sequence[str], most: int = 3) -> str:
    """Return the different reasons in one text, ``most`` of them at most."""
    different = list(dict.fromkeys(reasons))
    more = len(different) - most
    return "; ".join(different[:most] + ([f"and {more} more"] if more > 0 else []))


_LIVE: Final = re.compile(r'["$`\\]')  # special inside of double quotes


def quote_word(word: str) -> str:
    """Return a word as a person would type it: in double quotes if it has single quotes."""
    if "'" not in word or "!" in word:  # no backslash hides a "!" inside of double quotes
        return shlex.quote(word)
    return '"' + _LIVE.sub(r"\\\g<0>", word) + '"'


_COMMAND: Final = re.compile(r"`deltactl [^`]*`")
_PLACEHOLDER: Final = re.compile(r" TABLE\b")


def name_table(text: str, table: str | None) -> str:
    """Return a text in which commands in backticks have the table in place of ``TABLE``."""
    if table is None:
        return text
    shown = f" {quote_word(table)}"
    return _COMMAND.sub(lambda command: _PLACEHOLDER.sub(lambda _: shown, command[0]), text)


# After the user comes a port, or else a password, which can contain @ and /. ARNs have colons, too.
_PASSWORD: Final = re.compile(
    r"((?<![\w+.-])[a-zA-Z][\w+.-]+:/{1,2}(?!arn:)[^/:\[]*):(?!\s|\d+(?:/|\W*(?:\s|\Z))).*@"
)
_QUERY: Final = re.compile(r"(://[^?\n]{0,2000}\?)([^\s'\"]+)")  # the limit bounds the time
# After the "?" of a pattern, a directory may be named key=value.
_SIGNATURE: Final = re.compile(
    r"(?:^|[&;?]|%26|\\u0026)[\w.-]*(?:sig|signature|token|key|secret|password|credential|delegation)=",
    re.IGNORECASE,
)


def find_secret(address: str) -> str | None:
    """Return which secret an address contains, in one word, or ``None``."""
    if _PASSWORD.search(address):
        return "password"
    return None if _mask_signatures(address) == address else "signature"


def mask_address(text: str) -> str:
    """Return an address, or a text with addresses, without the passwords and signatures."""
    return _mask_signatures(_PASSWORD.sub(r"\1:...@", text))


def _mask_signatures(text: str) -> str:
    return _QUERY.sub(lambda it: f"{it[1]}..." if _SIGNATURE.search(it[2]) else it[0], text)


def hint_at_versions(address: str) -> str:
    """Return the hint for a table that does not have the requested version or time."""
    command = f"deltactl describe-history {shlex.quote(address)} --all"
    return f"Run `{command}` to list the versions and their times."


def naming_table(warn: Warn, table: str) -> Warn:
    """Return a receiver that puts the table before each text and into the commands of the text.

    Passwords in the address are masked.
    """
    return lambda message: warn(mask_address(f"{table}: {name_table(message, table)}"))


def ignore_warning(message: str) -> None:
    """Discard the warning."""


class DeltactlError(Exception):
    """Base of all errors that deltactl raises on purpose. The texts contain no secrets.

    ``report``: that of the run, if a method of ``Table`` did a part of its work.
    """

    code: str = "FAILED"
    exit_code: int = 1
    report: object | None = None
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = mask_address(message)
        self.hint = hint if hint is None else mask_address(hint)
        super().__init__(self.message)


class UsageError(DeltactlError):
    """An option or argument is wrong."""

    code = "USAGE"
    exit_code = 2


class PredicateError(UsageError):
    """A predicate cannot be parsed, or uses other columns than partition columns."""

    code = "PREDICATE"


class TableError(DeltactlError):
    """The table is not valid for the request."""

    code = "TABLE"


class NotATableError(TableError):
    """No Delta log with commits at this address."""

    code = "NOT_A_TABLE"


class VersionNotFoundError(TableError):
    """The log cannot rebuild the requested version or timestamp."""

    code = "VERSION_NOT_FOUND"


class CorruptLogError(TableError):
    """A file of the transaction log is not valid; the message names the file and version.

    ``table`` is the address of the table in a run that reads several; else ``None``.
    """

    code = "LOG_CORRUPT"
    table: str | None = None


class LogGapError(CorruptLogError):
    """Versions are missing between the checkpoint and the requested version."""

    code = "LOG_GAP"


class MissingActionError(CorruptLogError):
    """The log has no protocol or no metaData action up to the requested version."""

    code = "LOG_ACTION_MISSING"


class MissingLogFileError(CorruptLogError):
    """A file that the log references or that was listed in it does not exist."""

    code = "LOG_FILE_MISSING"


class DataFileError(TableError):
    """A data file or deletion vector is missing, not valid, or differs from the log."""

    code = "DATA_FILE"


class FileMissingError(DataFileError):
    """A data file or deletion vector that the log references does not exist."""

    code = "FILE_MISSING"


class VerificationError(TableError):
    """Rewritten rows do not equal the live rows of the input files; nothing was committed."""

    code = "VERIFICATION"


class CommitDamagedError(TableError):
    """The run committed, but its commit was overwritten, or files that it adds were deleted.

    ``report.gone``: the files that were deleted after a clone or restore.
    """

    code = "COMMIT_DAMAGED"


class ConflictError(DeltactlError):
    """A concurrent writer committed a conflicting change; a retry may succeed.

    ``reasons``: for each part of the commit, the reason why it was not committed, if known.
    """

    code = "CONFLICT"
    exit_code = 4
    retryable = True

    def __init__(
        self, message: str, *, hint: str | None = None, reasons: Sequence[str] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.reasons = tuple(reasons)


class CommitOutcomeUnknownError(ConflictError):
    """It is not known whether the commit succeeded, even after reading the log."""

    code = "COMMIT_UNKNOWN"


class FilesGoneError(ConflictError):
    """Files that a commit would add were deleted during the run; nothing was committed.

    Or ``changed`` files, which it would add or replace, were written again.
    """

    code = "FILES_GONE"

    def __init__(
        self, message: str, *, hint: str | None = None, changed: Sequence[str] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.changed = tuple(changed)


KEEPS_FILES: Final = (CommitOutcomeUnknownError, CommitDamagedError)
"""Errors after which the log may have the commit: new files and journals of the run are kept."""


class LeaseHeldError(ConflictError):
    """Another run of the same command is running on this table."""

    code = "LEASE_HELD"


class PartialSuccessError(DeltactlError):
    """A part of the work is done.

    Other writers changed the files of the rest, or the file of ``--report`` or ``--metrics`` could
    not be written. If something is broken, the error is that of the cause.
    """

    code = "PARTIAL"
    exit_code = 5


class TimeLimitError(PartialSuccessError):
    """The time limit of the run was reached; finished tasks are committed.

    ``exit_code`` is 1 if nothing finished, since that is not a partial success.
    """

    code = "TIMEOUT"
    retryable = True

    def __init__(self, message: str, *, is_part_done: bool = True, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = PartialSuccessError.exit_code if is_part_done else DeltactlError.exit_code


class NotBegunError(PartialSuccessError):
    """One of several tables, which was not started because another one failed."""

    code = "NOT_BEGUN"
    retryable = True


class SearchIncompleteError(PartialSuccessError):
    """A search did not cover everything, so a value that was not found may still be stored."""

    code = "SEARCH_INCOMPLETE"


class SafetyError(DeltactlError):
    """A rule that protects data refuses the request."""

    code = "SAFETY"
    exit_code = 6


class ConversionError(SafetyError):
    """Files of a directory cannot become a table; ``problems`` has all of them.

    Each problem is (path, column or ``None``, reason).
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
    """The table uses a feature that this operation does not support."""

    code = "UNSUPPORTED_FEATURE"
    exit_code = 7


class StorageError(DeltactlError):
    """The store refused or failed."""

    code = "STORAGE"
    exit_code = 8
    had_no_effect: ClassVar[bool] = False  # whether the request was refused, so it did nothing


class TransientStorageError(StorageError):
    """The store failed with a transient error: a retry may succeed."""

    code = "STORAGE_BUSY"
    retryable = True


class UnreachableError(TransientStorageError):
    """No connection to the store: its host does not exist or does not answer."""

    code = "UNREACHABLE"


class UnsupportedByStoreError(StorageError):
    """The store does not support the request."""

    code = "STORAGE_UNSUPPORTED"


class ObjectNotFoundError(StorageError):
    """The store has no file of this name."""

    code = "OBJECT_NOT_FOUND"


class ObjectExistsError(StorageError):
    """Put-if-absent found an existing file of this name."""

    code = "OBJECT_EXISTS"


class BucketNotFoundError(StorageError):
    """The store has no bucket or container of this name."""

    code = "BUCKET_NOT_FOUND"


class AccessDeniedError(StorageError):
    """The permissions do not allow the request."""

    code = "ACCESS_DENIED"
    had_no_effect = True


class CredentialsMissingError(AccessDeniedError):
    """No credentials were found."""

    code = "CREDENTIALS_MISSING"


class CredentialsRefusedError(AccessDeniedError):
    """The store or the identity provider does not accept the credentials."""

    code = "CREDENTIALS_REFUSED"


class CredentialsExpiredError(AccessDeniedError):
    """The credentials have expired."""

    code = "CREDENTIALS_EXPIRED"


class OutOfMemoryError(DeltactlError):
    """The process could not allocate memory, or start a thread."""

    code = "MEMORY"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(
            message,
            hint=hint
            or (
                "Raise the memory limit (`ulimit -v`, or the limit of the cgroup). To use less "
                "memory, give --max-concurrent 1, a smaller --memory or a smaller --target-size."
            ),
        )


class EngineUnavailableError(DeltactlError):
    """The requested engine is not available."""

    code = "ENGINE_UNAVAILABLE"
    exit_code = 9


class InterruptedRunError(DeltactlError):
    """A signal ended the run; ``exit_code`` is 128 plus the signal's number.

    ``is_part_done``: whether any task had finished.
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
    """A bug in deltactl; the program raises it in place of an unexpected exception."""

    code = "INTERNAL"


# First failures that need a person, then those that a rerun finishes.
FROM_WORST: Final = (130, 143, 1, 8, 7, 6, 9, 2, 5, 4)


def find_worst_error(errors: Iterable[DeltactlError]) -> DeltactlError:
    """Return the error that matters most, by its exit status; the first of several alike."""
    rank = {code: number for number, code in enumerate(FROM_WORST)}
    return min(errors, key=lambda error: rank.get(error.exit_code, -1))


def explain_rest(cause: DeltactlError, message: str, *, hint: str | None = None) -> DeltactlError:
    """Return an error about a part of the work, of the class of its cause."""
    error = copy(cause)
    error.message, error.hint = mask_address(message), hint if hint is None else mask_address(hint)
    error.args = (error.message,)
    return error


def name_commits(error: DeltactlError, versions: Sequence[int]) -> DeltactlError:
    """Return an error that also names the versions that its run committed before."""
    error.message += f"; committed before this: version {', '.join(map(str, versions))}"
    error.args = (error.message,)
    error.hint = error.hint or "Fix the cause, then rerun: what is left is then done."
    return error


def explain_foreign(what: str, error: Exception) -> DeltactlError:
    """Return a deltactl error unchanged; for any other error, return one that names ``what``."""
    match error:
        case DeltactlError():
            return error
        case MemoryError():
            return OutOfMemoryError(f"{what} failed: out of memory")
        case _:
            return DeltactlError(f"{what} failed: {type(error).__name__}: {error}")


def say_what_is_left(error: DeltactlError, state: str, flag: str) -> None:
    """Change an error: first the state that is left, and the option that repairs it."""
    error.message = f"{state}: {error.message}"
    error.args = (error.message,)
    error.hint = f"{error.hint or 'Fix the cause.'} Then rerun with {flag}."
