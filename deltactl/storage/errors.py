"""Convert errors of the operating system and of cloud libraries to errors of deltactl.

The type of the exception decides first, because libraries raise ``FileNotFoundError`` and similar
exceptions without an error number. Then the error number decides. All other errors become a plain
``StorageError``.
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
from deltactl.storage.secrets import hide_secrets


class TransientStorageError(StorageError):
    """The store failed with a transient error: a retry may succeed."""

    retryable = True


class UnsupportedByStoreError(StorageError):
    """The store does not support the request."""


def _numbers(*names: str) -> frozenset[int]:
    """Return the numbers of the errors with these names, as far as this system has them."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_TRANSIENT: Final = _numbers(
    "EAGAIN", "EBUSY", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH",
    "EINTR", "ENETDOWN", "ENETRESET", "ENETUNREACH", "ENOTCONN", "EPIPE", "EREMOTEIO", "ESHUTDOWN",
    "ESTALE", "ETIMEDOUT",
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

_MAX_CAUSES: Final = 8
# Signatures in the address of a request, or keys in a connection string of an account.
_SIGNATURE: Final = re.compile(
    r"\b(sig|signature|accountkey|sharedaccesssignature|x-(?:amz|goog)-(?:signature|credential"
    r"|security-token))=[^&\s'\";]+",
    re.IGNORECASE,
)

_Kind = tuple[type[StorageError], str | None]

_TRANSIENT_KIND: Final[_Kind] = (TransientStorageError, "Rerun later: the store did not respond.")
_DENIED_KIND: Final[_Kind] = (
    AccessDeniedError,
    "Check the permissions or credentials of the user who runs deltactl.",
)
_KINDS: Final[Sequence[tuple[tuple[type[Exception], ...], _Kind]]] = (
    ((FileNotFoundError,), (ObjectNotFoundError, None)),
    ((FileExistsError,), (ObjectExistsError, None)),
    ((PermissionError,), _DENIED_KIND),
    (
        (NotADirectoryError,),
        (ObjectNotFoundError, "Move the file in this path that has the name of a directory."),
    ),
    ((IsADirectoryError,), (StorageError, "Move the directory that has this name.")),
    ((ConnectionError, TimeoutError, InterruptedError, BlockingIOError), _TRANSIENT_KIND),
    ((UnicodeError,), (StorageError, "Use a file system that allows this name.")),
)

# Errors of cloud libraries are not OSErrors; class names identify them without an import.
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
    "Check the key, its secret, and whether a token has expired: the store refused these"
    " credentials."
)
NO_BUCKET: Final[_Kind] = (
    StorageError,
    "Check the name of the bucket or container, and the endpoint or account.",
)
_S3_DENIED_HINT: Final = (
    "Check the permissions of the user who runs deltactl; for a requester-pays bucket, add"
    " --storage-option requester_pays=true."
)
_LIST_HINT: Final = (
    "Allow the user who runs deltactl to list the table's directory: s3:ListBucket, "
    "storage.objects.list, or the permission to list blobs."
)
# gcsfs has no exception classes for these errors.
_PHRASES: Final[Mapping[str, _Kind]] = {
    "Forbidden:": _DENIED_KIND,
    "Bucket is requester pays": (
        AccessDeniedError,
        "Give the project that pays for the requests: --storage-option requester_pays=PROJECT.",
    ),
}
_MAX_REASON_CHARACTERS: Final = 500
_REGION_HINT: Final = "Set AWS_REGION, or --storage-option region=REGION, to the bucket's region."
# Error codes of services that are more exact than the HTTP status.
_CODES: Final[Mapping[str, _Kind]] = {
    "NoSuchBucket": NO_BUCKET,
    "ContainerNotFound": NO_BUCKET,
    "AccessDenied": (AccessDeniedError, _S3_DENIED_HINT),
    "AuthorizationFailure": (
        AccessDeniedError,
        "Check the credentials, and whether the account allows this network.",
    ),
    "AuthenticationFailed": (AccessDeniedError, _CREDENTIALS_HINT),
    "RequestTimeTooSkewed": (AccessDeniedError, "Set this machine's clock, which is wrong."),
    "InvalidBucketName": (
        StorageError,
        "Check the name of the bucket: the store does not allow this name.",
    ),
    "PermanentRedirect": (StorageError, _REGION_HINT),
    "AuthorizationHeaderMalformed": (StorageError, _REGION_HINT),
    "IllegalLocationConstraintException": (StorageError, _REGION_HINT),
    "InvalidAccessKeyId": (AccessDeniedError, _CREDENTIALS_HINT),
    "SignatureDoesNotMatch": (AccessDeniedError, _CREDENTIALS_HINT),
    "ExpiredToken": (AccessDeniedError, _CREDENTIALS_HINT),
    "InvalidToken": (AccessDeniedError, _CREDENTIALS_HINT),
    "PreconditionFailed": (ObjectExistsError, None),
    # Another conditional write of the same key was in progress: this write may be retried.
    "ConditionalRequestConflict": _TRANSIENT_KIND,
    "AccessDeniedException": _DENIED_KIND,
    "UnrecognizedClientException": (AccessDeniedError, _CREDENTIALS_HINT),
    "ProvisionedThroughputExceededException": _TRANSIENT_KIND,
    "RequestLimitExceeded": _TRANSIENT_KIND,
    "ThrottlingException": _TRANSIENT_KIND,
    "NotImplemented": (UnsupportedByStoreError, None),
    "SlowDown": (TransientStorageError, "Rerun later: the store asks for fewer requests."),
}
_DENIED_STATUSES: Final = frozenset({401, 403})
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


def no_versions_error(name: str) -> StorageError:
    """Return the error for a deleted file if the store keeps no old version of the file."""
    return ObjectNotFoundError(
        f"cannot restore {name!r}: it was deleted, and the store has no older version of it"
    )


def map_error(
    error: Exception, verb: str, name: str, where: str, secrets: Sequence[str] = ()
) -> StorageError:
    """Return the deltactl error for ``error``; an attempt to ``verb`` the file ``name`` raised it.

    Values in ``secrets`` are removed from the library's message.
    """
    kind, hint = _classify(error)
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or kind.__name__
    reason = _SIGNATURE.sub(r"\1=***", hide_secrets(reason, secrets))
    # Azure's messages have many lines.
    reason = reason.partition("\nRequestId:")[0][:_MAX_REASON_CHARACTERS]
    if verb == "list" and hint in (_DENIED_KIND[1], _S3_DENIED_HINT):
        hint = _LIST_HINT
    return kind(f"cannot {verb} {name!r} in {where}: {reason}", hint=hint)


def is_transient(error: Exception) -> bool:
    """Return whether an error of a library is transient."""
    return not isinstance(error, DeltactlError) and _classify(error)[0].retryable


@contextmanager
def mapped_errors(verb: str, name: str, where: str) -> Iterator[None]:
    """Convert errors of the operating system inside the block to errors of deltactl.

    Raises:
        StorageError: (or a subclass) for any ``OSError``, and for names that cannot be encoded.
    """
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise map_error(error, verb, name, where) from error


def _classify(error: Exception) -> _Kind:
    if isinstance(error, DeltactlError):
        raise error
    # An OSError can have an error of the service as its cause, with the same meaning.
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
    # After a broken download, Azure's client raises an error without a status.
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


def not_a_directory(path: str) -> NotADirectoryError:
    """Return the error for a directory whose name is taken by a file.

    ``os.mkdir`` then raises "exists", which a commit would treat as a commit of another writer.
    """
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
