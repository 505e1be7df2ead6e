"""The one place where errors of the system and of cloud libraries become deltactl's own.

The kind of the exception decides first, since libraries raise ``FileNotFoundError`` and its like
without a number; then the error number; what neither knows is a plain ``StorageError``.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from deltactl.errors import (
    AccessDeniedError,
    DeltactlError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)


class TransientStorageError(StorageError):
    """The store failed in a way that often passes: trying again may succeed."""

    retryable = True


class UnsupportedByStoreError(StorageError):
    """The store does not know what it was asked for."""


def _numbers(*names: str) -> frozenset[int]:
    """Give the error numbers that exist on this system, of those named."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_TRANSIENT: Final = _numbers(
    "EAGAIN", "EBUSY", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH",
    "EINTR", "ENETDOWN", "ENETRESET", "ENETUNREACH", "ENOTCONN", "EPIPE", "EREMOTEIO", "ESHUTDOWN",
    "ESTALE", "ETIMEDOUT",
)  # fmt: skip

_HINTS: Final[Mapping[str, str]] = {
    "ENOSPC": "the disk is full: free space there and run again",
    "EDQUOT": "the quota is used up: free space there and run again",
    "EFBIG": "the file system does not take files of this size",
    "EROFS": "the file system is mounted read-only",
    "EMFILE": "this process has too many open files: raise `ulimit -n` or lower the parallelism",
    "ENFILE": "the system has too many open files: raise fs.file-max or lower the parallelism",
    "ENAMETOOLONG": "the file system takes no names of this length",
    "ELOOP": "symbolic links lead in a circle",
    "EIO": "the device failed: check its health and the system's log before running again",
    "ENOTEMPTY": "a folder with files in it has this name",
    "EXDEV": "the name lies on another file system",
}
_HINT_BY_NUMBER: Final[Mapping[int, str]] = {
    getattr(errno, name): hint for name, hint in _HINTS.items() if hasattr(errno, name)
}

_DEEPEST_CAUSE: Final = 8
# What signs a request in its address or in an account's connection string.
_SIGNATURE: Final = re.compile(
    r"\b(sig|signature|accountkey|sharedaccesssignature|x-(?:amz|goog)-(?:signature|credential"
    r"|security-token))=[^&\s'\";]+",
    re.IGNORECASE,
)

_Kind = tuple[type[StorageError], str | None]

_TRANSIENT_KIND: Final[_Kind] = (TransientStorageError, "the store did not answer: try again")
_DENIED_KIND: Final[_Kind] = (
    AccessDeniedError,
    "check the permissions, or the credentials, of who runs deltactl",
)
_KINDS: Final[Sequence[tuple[tuple[type[Exception], ...], _Kind]]] = (
    ((FileNotFoundError,), (ObjectNotFoundError, None)),
    ((FileExistsError,), (ObjectExistsError, None)),
    ((PermissionError,), _DENIED_KIND),
    ((NotADirectoryError,), (ObjectNotFoundError, "a file stands where the name needs a folder")),
    ((IsADirectoryError,), (StorageError, "a folder has this name")),
    ((ConnectionError, TimeoutError, InterruptedError, BlockingIOError), _TRANSIENT_KIND),
    ((UnicodeError,), (StorageError, "the file system cannot spell this name")),
)

# Cloud libraries raise outside OSError; they are known by class name so that none is imported.
_DENIED_CLASSES: Final = frozenset({
    "ClientAuthenticationError", "CredentialRetrievalError", "CredentialUnavailableError",
    "DefaultCredentialsError", "NoCredentialsError", "PartialCredentialsError", "RefreshError",
    "TokenRetrievalError", "UnauthorizedSSOTokenError",
})  # fmt: skip
_TRANSIENT_CLASSES: Final = frozenset({
    "ClientConnectionError", "ClientConnectorError", "ClientOSError", "ClientPayloadError",
    "ConnectTimeoutError", "ConnectionClosedError", "EndpointConnectionError", "FSTimeoutError",
    "HTTPClientError", "IncompleteReadError", "ReadTimeoutError", "ServerDisconnectedError",
    "ServerTimeoutError", "ServiceRequestError", "ServiceResponseError",
})  # fmt: skip
_CREDENTIALS_HINT: Final = (
    "the store does not take these credentials: check the key, its secret, and whether a token"
    " has expired"
)
NO_BUCKET: Final[_Kind] = (
    StorageError,
    "there is no such bucket or container: check its name, and the endpoint or account",
)
_S3_DENIED_HINT: Final = (
    "check the permissions of who runs deltactl; for a bucket whose requester pays, add"
    " --storage-option requester_pays=true"
)
_LIST_HINT: Final = (
    "who runs deltactl must be allowed to list the table's folder, not only to read what is in it:"
    " s3:ListBucket, storage.objects.list, or the right to list blobs"
)
# gcsfs has no classes for these.
_PHRASES: Final[Mapping[str, _Kind]] = {
    "Forbidden:": _DENIED_KIND,
    "Bucket is requester pays": (
        AccessDeniedError,
        "name the project that pays: --storage-option requester_pays=PROJECT",
    ),
}
_LONGEST_REASON: Final = 500
_REGION_HINT: Final = "the bucket is in another region: set AWS_REGION, or --storage-option"
# What services call their errors, where that says more than the status does.
_CODES: Final[Mapping[str, _Kind]] = {
    "NoSuchBucket": NO_BUCKET,
    "ContainerNotFound": NO_BUCKET,
    "AccessDenied": (AccessDeniedError, _S3_DENIED_HINT),
    "AuthorizationFailure": (
        AccessDeniedError,
        "the account does not take these credentials, or not from this network",
    ),
    "AuthenticationFailed": (AccessDeniedError, _CREDENTIALS_HINT),
    "RequestTimeTooSkewed": (AccessDeniedError, "this machine's clock is wrong: set it"),
    "InvalidBucketName": (StorageError, "no bucket can have this name"),
    "PermanentRedirect": (StorageError, _REGION_HINT),
    "AuthorizationHeaderMalformed": (StorageError, _REGION_HINT),
    "IllegalLocationConstraintException": (StorageError, _REGION_HINT),
    "InvalidAccessKeyId": (AccessDeniedError, _CREDENTIALS_HINT),
    "SignatureDoesNotMatch": (AccessDeniedError, _CREDENTIALS_HINT),
    "ExpiredToken": (AccessDeniedError, _CREDENTIALS_HINT),
    "InvalidToken": (AccessDeniedError, _CREDENTIALS_HINT),
    "PreconditionFailed": (ObjectExistsError, None),
    # Another conditional write of the same key was under way: this one may be tried again.
    "ConditionalRequestConflict": _TRANSIENT_KIND,
    "AccessDeniedException": _DENIED_KIND,
    "UnrecognizedClientException": (AccessDeniedError, _CREDENTIALS_HINT),
    "ProvisionedThroughputExceededException": _TRANSIENT_KIND,
    "RequestLimitExceeded": _TRANSIENT_KIND,
    "ThrottlingException": _TRANSIENT_KIND,
    "NotImplemented": (UnsupportedByStoreError, None),
    "SlowDown": (TransientStorageError, "the store asks for fewer requests: try again later"),
}
_DENIED_STATUSES: Final = frozenset({401, 403})
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


def no_versions_error(name: str) -> StorageError:
    """What to say of a deleted file that no version is kept of."""
    return ObjectNotFoundError(
        f"cannot bring back {name!r}: it was deleted, and the store keeps no version of it"
    )


def map_error(
    error: Exception, verb: str, name: str, where: str, secrets: Sequence[str] = ()
) -> StorageError:
    """Give the deltactl error for ``error``, met while trying to ``verb`` ``name`` in ``where``.

    Values in ``secrets`` are blotted out of the library's own words.
    """
    kind, hint = _classify(error)
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or kind.__name__
    for secret in secrets:
        reason = reason.replace(secret, "***")
    reason = _SIGNATURE.sub(r"\1=***", reason)
    # Azure's go on for many lines.
    reason = reason.partition("\nRequestId:")[0][:_LONGEST_REASON]
    if verb == "list" and hint in (_DENIED_KIND[1], _S3_DENIED_HINT):
        hint = _LIST_HINT
    return kind(f"cannot {verb} {name!r} in {where}: {reason}", hint=hint)


def is_transient(error: Exception) -> bool:
    """Tell whether an error of a library often passes by itself."""
    return not isinstance(error, DeltactlError) and _classify(error)[0].retryable


@contextmanager
def mapped_errors(verb: str, name: str, where: str) -> Iterator[None]:
    """Turn the errors of the operating system inside the block into deltactl's.

    Raises:
        StorageError: or one of its kinds, for any ``OSError`` and for names that cannot be encoded.
    """
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise map_error(error, verb, name, where) from error


def _classify(error: Exception) -> _Kind:
    if isinstance(error, DeltactlError):
        raise error
    # s3fs wraps what the service said in an error of the system that fits more or less.
    code = next((code for code in map(service_code, _chain(error)) if code in _CODES), None)
    if code is not None:
        return _CODES[code]
    for phrase, kind in _PHRASES.items():
        if str(error).startswith(phrase):
            return kind
    for classes, kind in _KINDS:
        if isinstance(error, classes):
            return kind
    statuses = {status for status in map(_response_status, _chain(error)) if status is not None}
    if statuses:
        return _classify_status(statuses)
    if isinstance(error, OSError) and error.errno is not None:
        return _classify_number(error.errno)
    return _classify_foreign(error)


def _classify_number(number: int) -> _Kind:
    if number in _TRANSIENT:
        return _TRANSIENT_KIND
    return StorageError, _HINT_BY_NUMBER.get(number)


def _classify_foreign(error: Exception) -> _Kind:
    classes = _class_names(error)
    if classes & _DENIED_CLASSES:
        return _DENIED_KIND
    if "ResourceNotFoundError" in classes:
        return ObjectNotFoundError, None
    if "ResourceExistsError" in classes:
        return ObjectExistsError, None
    if classes & _TRANSIENT_CLASSES:
        return _TRANSIENT_KIND
    status = _http_status(error)
    if status is not None:
        return _classify_status({status})
    # Azure's client gives a broken download up with an error that has no status of its own.
    if any(_class_names(cause) & _TRANSIENT_CLASSES for cause in _chain(error)):
        return _TRANSIENT_KIND
    return StorageError, None


def _class_names(error: BaseException) -> set[str]:
    return {cls.__name__ for cls in type(error).__mro__}


def _classify_status(statuses: Set[int]) -> _Kind:
    if statuses & _DENIED_STATUSES:
        return _DENIED_KIND
    if HTTPStatus.NOT_FOUND in statuses:
        return ObjectNotFoundError, None
    if HTTPStatus.PRECONDITION_FAILED in statuses:
        return ObjectExistsError, None
    if statuses & _TRANSIENT_STATUSES:
        return _TRANSIENT_KIND
    if HTTPStatus.NOT_IMPLEMENTED in statuses:
        return UnsupportedByStoreError, None
    return StorageError, None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it."""
    cause: BaseException | None = error
    for _ in range(_DEEPEST_CAUSE):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _response(error: BaseException | None) -> Mapping[str, Any]:
    """The answer that botocore keeps in its errors."""
    response = getattr(error, "response", None)
    return response if isinstance(response, Mapping) else {}


def service_code(error: BaseException | None) -> str:
    """What a service calls its error; empty where it says nothing."""
    details = _response(error).get("Error")
    found = details.get("Code") if isinstance(details, Mapping) else None
    code = found or getattr(error, "error_code", None) or ""
    return str(getattr(code, "value", code))


def _response_status(error: BaseException) -> int | None:
    metadata = _response(error).get("ResponseMetadata")
    found = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    return found if isinstance(found, int) else None


def _http_status(error: Exception) -> int | None:
    for attribute in ("status_code", "status", "code"):
        value = getattr(error, attribute, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.isdigit():
            return int(value)
    return None


def folder_in_the_way(folder: str) -> NotADirectoryError:
    """Give the error for a file that stands where a folder is needed.

    ``os.mkdir`` says "exists" there, which a commit would take for a lost race.
    """
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
