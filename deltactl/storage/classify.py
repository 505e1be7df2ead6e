"""Find the class of deltactl's error for an error of the operating system or of a cloud library.

The service's own code decides first, then the type of the exception, because libraries raise
``FileNotFoundError`` and similar exceptions without an error number. Then the HTTP status and the
error number decide. All other errors become a plain ``StorageError``.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from http import HTTPStatus
from socket import gaierror
from typing import Any, Final

from deltactl.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    CredentialsExpiredError,
    CredentialsMissingError,
    CredentialsRefusedError,
    DeltactlError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TransientStorageError,
    UnreachableError,
    UnsupportedByStoreError,
)


class ObjectHeldError(StorageError):
    """The store does not delete or replace this file: a snapshot, a lease or a policy keeps it."""

    had_no_effect = True


ErrorKind = tuple[type[StorageError], str | None]
"""A class of errors, and a hint if the class alone does not decide what helps."""

_Class = type[StorageError]


def _numbers(*names: str) -> frozenset[int]:
    """Return the numbers of the errors with these names, as far as this system has them."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_UNREACHABLE: Final = _numbers(
    "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH"
)
_TRANSIENT: Final = _numbers(
    "EAGAIN", "EBUSY", "ECONNABORTED", "ECONNRESET", "EINTR", "ENETRESET", "ENOTCONN", "EPIPE",
    "EREMOTEIO", "ESHUTDOWN", "ESTALE", "ETIMEDOUT",
)  # fmt: skip
_HINTS: Final[Mapping[str, str]] = {
    "ENOSPC": "Free space on the disk, which is full; then rerun.",
    "EDQUOT": "Free space in the quota, which is used up; then rerun.",
    "EFBIG": "Use a file system that allows files of this size.",
    "EROFS": "Remount the file system: it is mounted read-only.",
    "EMFILE": "Raise `ulimit -n`, or rerun `optimize` with a lower --max-concurrent: the process "
    "has too many open files.",
    "ENFILE": "Raise fs.file-max, or rerun `optimize` with a lower --max-concurrent: the system "
    "has too many open files.",
    "ENAMETOOLONG": "Use a file system that allows names of this length.",
    "ELOOP": "Fix the symbolic links, which form a loop.",
    "EIO": "Check the device and the system's log before you rerun: the device failed.",
    "ENOTEMPTY": "Move the directory that has this name; it is not empty.",
    "EXDEV": "Keep the whole table on one file system: this file is on another file system.",
}
_HINT_BY_NUMBER: Final[Mapping[int, str]] = {
    getattr(errno, name): hint for name, hint in _HINTS.items() if hasattr(errno, name)
}
_TYPES: Final[Sequence[tuple[tuple[type[Exception], ...], ErrorKind]]] = (
    ((gaierror, ConnectionRefusedError), (UnreachableError, None)),
    ((FileNotFoundError,), (ObjectNotFoundError, None)),
    ((FileExistsError,), (ObjectExistsError, None)),
    ((PermissionError,), (AccessDeniedError, None)),
    (
        (NotADirectoryError,),
        (ObjectNotFoundError, "Move the file in this path that has the name of a directory."),
    ),
    ((IsADirectoryError,), (StorageError, "Move the directory that has this name.")),
    (
        (ConnectionError, TimeoutError, InterruptedError, BlockingIOError),
        (TransientStorageError, None),
    ),
    ((UnicodeError,), (StorageError, "Give the file and its directories names that are UTF-8.")),
)

# Class names of cloud libraries identify their errors without an import.
_CLASSES: Final[Mapping[_Class, Set[str]]] = {
    CredentialsMissingError: {
        "ClientAuthenticationError", "CredentialUnavailableError", "NoCredentialsError",
    },
    CredentialsExpiredError: {
        "ReauthFailError", "SSOTokenLoadError", "TokenRetrievalError", "UnauthorizedSSOTokenError",
    },
    CredentialsRefusedError: {
        "AuthenticationException", "AzureSigningError", "ConfigParseError",
        "CredentialRetrievalError", "DefaultCredentialsError", "InvalidConfigError",
        "PartialCredentialsError", "ProfileNotFound", "RefreshError",
    },
    ObjectNotFoundError: {"ResourceNotFoundError"},
    ObjectExistsError: {"ResourceExistsError"},
    UnreachableError: {
        "ClientConnectorError", "ConnectTimeout", "ConnectTimeoutError", "ConnectionTimeoutError",
        "EndpointConnectionError", "NoValidConnectionsError", "ProxyConnectionError",
        "ServiceRequestError", "TransportError",
    },
    TransientStorageError: {
        "ClientConnectionError", "ClientOSError", "ClientPayloadError", "ConnectionClosedError",
        "FSTimeoutError", "HTTPClientError", "IncompleteReadError", "ReadTimeoutError",
        "RequestException", "ServerDisconnectedError", "ServerTimeoutError",
        "ServiceResponseError",
    },
}  # fmt: skip
_REGION_HINT: Final = "Set AWS_REGION or the storage option region to the bucket's region."
_ARCHIVED_HINT: Final = (
    "Restore the object from the archive (RestoreObject of S3, or the access tier Hot of Azure), "
    "copy it to a storage class without an archive, and change the lifecycle rule that archives "
    "the files of the table. Then rerun."
)
_IMMUTABLE_HINT: Final = (
    "Remove the legal hold or the immutability policy of this blob, or rerun when its retention "
    "has ended."
)
# Error codes of services that are more exact than the HTTP status.
_CODES: Final[Mapping[ErrorKind, Set[str]]] = {
    (BucketNotFoundError, None): {"ContainerNotFound", "NoSuchBucket"},
    (AccessDeniedError, None): {
        "AccessDenied", "AccessDeniedException", "AuthorizationFailure",
        "AuthorizationPermissionMismatch", "InsufficientAccountPermissions",
        "KeyBasedAuthenticationNotPermitted",
    },
    (AccessDeniedError, "Set this machine's clock, which is wrong."): {"RequestTimeTooSkewed"},
    (CredentialsMissingError, None): {"NoAuthenticationInformation", "PublicAccessNotPermitted"},
    (CredentialsRefusedError, None): {
        "AuthenticationFailed", "InvalidAccessKeyId", "InvalidAuthenticationInfo",
        "InvalidClientTokenId", "InvalidToken", "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    },
    (CredentialsExpiredError, None): {"ExpiredToken", "ExpiredTokenException", "RequestExpired"},
    (StorageError, "Check the name of the bucket: the store does not allow this name."): {
        "InvalidBucketName",
    },
    (StorageError, _REGION_HINT): {
        "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect",
    },
    # CopyObject has a code of its own.
    (StorageError, _ARCHIVED_HINT): {
        "BlobArchived", "BlobBeingRehydrated", "InvalidObjectState", "ObjectNotInActiveTierError",
    },
    (ObjectExistsError, None): {"PreconditionFailed"},
    # Source: error codes of the Blob service. Its client calls these "exists", as all conflicts.
    (ObjectHeldError, "Delete the snapshots of this blob, then rerun."): {"SnapshotsPresent"},
    (ObjectHeldError, "Break the lease of this blob, then rerun."): {"LeaseIdMissing"},
    (ObjectHeldError, _IMMUTABLE_HINT): {
        "BlobImmutableDueToLegalHold", "BlobImmutableDueToPolicy",
    },
    # Another conditional write of the same key was in progress: this write may be retried.
    (TransientStorageError, None): {
        "ConditionalRequestConflict", "ProvisionedThroughputExceededException",
        "RequestLimitExceeded", "ThrottlingException",
    },
    (TransientStorageError, "Rerun later: the store asks for fewer requests."): {"SlowDown"},
    (UnsupportedByStoreError, None): {"NotImplemented"},
}  # fmt: skip
_BY_CODE: Final = {code: kind for kind, codes in _CODES.items() for code in codes}
# Some libraries have no classes or codes for these errors.
_PHRASES: Final[Mapping[str, ErrorKind]] = {
    "Forbidden:": (AccessDeniedError, None),
    "Anonymous caller": (CredentialsMissingError, None),
    "Unable to load lib": (  # of Java or Hadoop
        StorageError,
        "Install Java and the native library of Hadoop (libhdfs), and set JAVA_HOME, HADOOP_HOME "
        "and CLASSPATH.",
    ),
    "unable to connect to account": (CredentialsRefusedError, None),
    "Provided token is either not valid": (CredentialsRefusedError, None),
    "Bucket is requester pays": (
        AccessDeniedError,
        "Give the project that pays for the requests: the storage option requester_pays=PROJECT.",
    ),
}
_STATUSES: Final[Mapping[int, _Class]] = {
    HTTPStatus.UNAUTHORIZED: CredentialsRefusedError,
    HTTPStatus.FORBIDDEN: AccessDeniedError,
    HTTPStatus.NOT_FOUND: ObjectNotFoundError,
    HTTPStatus.PRECONDITION_FAILED: ObjectExistsError,
    **dict.fromkeys((408, 409, 425, 429, 500, 502, 503, 504), TransientStorageError),
    HTTPStatus.NOT_IMPLEMENTED: UnsupportedByStoreError,
}
# Of these, libraries tell the cause only in words.
_VAGUE: Final = (CredentialsMissingError, CredentialsRefusedError, TransientStorageError)
_EXPIRED: Final = re.compile(r"\bexpired\b|not valid in the specified time frame", re.IGNORECASE)
_NO_CONNECTION: Final = re.compile(
    r"cannot connect to host|failed to (?:establish a new connection|resolve)"
    r"|could not connect to the endpoint url",
    re.IGNORECASE,
)
_REFUSED_BY_ENTRA: Final = re.compile(r"AADSTS\d+")
_MAX_CAUSES: Final = 8  # an error can be its own cause, so the chain may have no end


def classify(error: Exception) -> ErrorKind:
    """Return the class of an error.

    Raises:
        DeltactlError: the error, if it is one of deltactl.
    """
    if isinstance(error, DeltactlError):
        raise error
    kind, hint = _classify(error)
    if kind in _VAGUE:
        kind = _look_closer(kind, error)
    return kind, hint


def _classify(error: Exception) -> ErrorKind:
    causes = list(_chain(error))
    # An OSError can have an error of the service as its cause, with the same meaning.
    code = next((code for code in map(service_code, causes) if code in _BY_CODE), None)
    if code is not None:
        return _BY_CODE[code]
    for phrase, known in _PHRASES.items():
        if str(error).startswith(phrase):
            return known
    statuses = {status for status in map(_http_status, causes) if status in _STATUSES}
    kind = _class_by_name(error)
    # Azure has one class for missing credentials and for refused requests; these have a status.
    if kind is not None and not (kind is CredentialsMissingError and statuses):
        return kind, None
    for types, known in _TYPES:
        if isinstance(error, types):
            return known
    if statuses:
        return next(kind for status, kind in _STATUSES.items() if status in statuses), None
    if isinstance(error, OSError) and error.errno is not None:
        return _classify_number(error.errno)
    # After a broken download, Azure's client raises an error without a status.
    return next(filter(None, map(_class_by_name, causes)), StorageError), None


def _look_closer(kind: _Class, error: Exception) -> _Class:
    words = " ".join(map(str, _chain(error)))
    if kind is not TransientStorageError and _EXPIRED.search(words):
        return CredentialsExpiredError
    if kind is CredentialsMissingError and _REFUSED_BY_ENTRA.search(words):
        return CredentialsRefusedError
    return UnreachableError if _NO_CONNECTION.search(words) else kind


def _classify_number(number: int) -> ErrorKind:
    if number in _UNREACHABLE:
        return UnreachableError, None
    if number in _TRANSIENT:
        return TransientStorageError, None
    return StorageError, _HINT_BY_NUMBER.get(number)


def _class_by_name(error: BaseException) -> _Class | None:
    """Return the class of an error by the name of its own class, or else of a base class."""
    names = [cls.__name__ for cls in type(error).__mro__]
    found = (kind for name in names for kind, known in _CLASSES.items() if name in known)
    return next(found, None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause, the cause of the cause, and so on."""
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _response(error: BaseException | None) -> Mapping[str, Any]:
    """Return the answer of the service, which is in errors of botocore."""
    response = getattr(error, "response", None)
    return response if isinstance(response, Mapping) else {}


def service_code(error: BaseException | None) -> str:
    """Return the service's error code; an empty string if there is none."""
    details = _response(error).get("Error")
    found = details.get("Code") if isinstance(details, Mapping) else None
    code = found or getattr(error, "error_code", None) or ""
    # The codes of Azure are members of an enumeration.
    return str(getattr(code, "value", code))


def _http_status(error: BaseException) -> int | None:
    metadata = _response(error).get("ResponseMetadata")
    found = [metadata.get("HTTPStatusCode")] if isinstance(metadata, Mapping) else []
    # The names in errors of Azure, aiohttp and gcsfs.
    found += [getattr(error, name, None) for name in ("status_code", "status", "code")]
    numbers = (str(value) for value in found if not isinstance(value, bool))
    return next((int(number) for number in numbers if number.isdigit()), None)
