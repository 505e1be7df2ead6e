"""Convert errors of the operating system and of cloud libraries to errors of deltactl."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

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
)
from deltactl.storage.classify import ObjectHeldError, classify
from deltactl.storage.providers import Access
from deltactl.storage.secrets import hide_secrets

NO_VERSION: Final = "no older version was found; deltactl finds versions only on S3 and GCS"

_MAX_REASON_CHARACTERS: Final = 500
# Signatures in the address of a request, or keys in a connection string of an account.
_SIGNATURE: Final = re.compile(
    r"\b(sig|signature|accountkey|sharedaccesssignature|x-(?:amz|goog)-(?:signature|credential"
    r"|security-token))=[^&\s'\";]+",
    re.IGNORECASE,
)
# What follows is longer than the reason: of Azure, and of the loader of libraries.
_DETAILS: Final = re.compile(r"\nRequestId:|\s+dlopen\(")
_HOST: Final = re.compile(r"(?:to host |host='|https?://)([^\s/:'\"]+(?::\d+)?)")
_RIGHT_OF_AWS: Final = re.compile(r"not authorized to perform: (\w+:\w+)")
_REFUSAL_BY_ENTRA: Final = re.compile(r"AADSTS\d+[^\n]*")


def no_versions_error(name: str) -> StorageError:
    """Return the error for a deleted file if deltactl finds no old version of the file."""
    return ObjectNotFoundError(f"cannot restore {name!r}: it was deleted, and {NO_VERSION}")


def no_bucket_error(bucket: str) -> BucketNotFoundError:
    """Return the error for a listing of a bucket that does not exist."""
    return BucketNotFoundError(f"{bucket!r} does not exist", hint=_hint(BucketNotFoundError, ""))


def no_root_error(uri: str) -> StorageError:
    """Return the error for the root of a store that is missing or empty, but was not before."""
    return StorageError(
        f"the directory {uri} is missing or empty: it was moved or deleted during the run, or its "
        "file system is not mounted any more",
        hint="Check the path and the mount, then rerun.",
    )


def map_error(
    error: Exception,
    verb: str,
    name: str,
    where: str,
    secrets: Sequence[str] = (),
    *,
    access: Access | None = None,
) -> StorageError:
    """Return the deltactl error for ``error``; an attempt to ``verb`` the file ``name`` raised it.

    Values in ``secrets`` are removed from the library's message. ``access`` is ``None`` for local
    files.
    """
    kind, hint = classify(error)
    if verb == "create" and kind is ObjectHeldError:
        kind, hint = ObjectExistsError, None  # a store keeps only what exists
    reason = _SIGNATURE.sub(r"\1=***", hide_secrets(_reason(kind, error, access), secrets))
    # Other texts follow it, with a full stop of their own.
    reason = " ".join(reason.split())[:_MAX_REASON_CHARACTERS].rstrip(".")
    return kind(
        f"cannot {verb} {f'{name!r} in ' if name else ''}{where}: {reason}",
        hint=hint or _hint(kind, verb, access, reason),
    )


def is_transient(error: Exception) -> bool:
    """Return whether an error of a library is transient."""
    return not isinstance(error, DeltactlError) and classify(error)[0].retryable


def is_unreachable(error: Exception) -> bool:
    """Return whether an error of a library means that there was no connection."""
    return not isinstance(error, DeltactlError) and classify(error)[0] is UnreachableError


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


def _reason(kind: type[StorageError], error: Exception, access: Access | None) -> str:
    """Return what happened."""
    if kind is CredentialsMissingError and access is not None:
        return f"no credentials were found in {access.sources}"
    text = str(error)
    if kind is UnreachableError and (host := _HOST.search(text)):
        return f"no connection to {host[1]}"
    refused = _REFUSAL_BY_ENTRA.search(text)
    text = text.removeprefix("unable to connect to account for ")  # of a connection string
    return (
        # The text of an OSError would repeat the name, which the message has.
        (error.strerror if isinstance(error, OSError) else None)
        or (refused[0] if refused else "")
        or _DETAILS.split(text)[0].strip()
        or kind.__name__
    )


def _hint(
    kind: type[StorageError], verb: str, access: Access | None = None, reason: str = ""
) -> str | None:
    if kind is BucketNotFoundError:
        return "Check the name of the bucket or container, and the endpoint or account."
    if kind is UnreachableError:
        return (
            "Check the network, the name of the endpoint or account, and the proxy (HTTPS_PROXY)."
        )
    if kind is TransientStorageError:
        return "Rerun later: the store did not respond."
    if access is None:
        return _local_hint(kind, verb)
    if not issubclass(kind, AccessDeniedError):
        return None
    if kind is CredentialsMissingError:
        return access.how_to_give
    if kind is CredentialsExpiredError:
        return access.how_to_renew
    if kind is CredentialsRefusedError:
        return f"Correct the credentials. deltactl looks for them in {access.sources}."
    # A request can need more than its own right, for example that of the key of the object.
    named = _RIGHT_OF_AWS.search(reason)
    return f"Give the identity of these credentials {named[1]}." if named else access.allow(verb)


def _local_hint(kind: type[StorageError], verb: str) -> str | None:
    if issubclass(kind, AccessDeniedError):
        return (
            "Run deltactl as the owner of the file, or change the permissions of the file and of "
            "its directories (chmod, chown): see `ls -ld`. deltactl runs as user "
            f"{os.geteuid()}."
        )
    if kind is ObjectNotFoundError and verb == "write":
        return (
            "Choose another directory: this file system cannot create it, or another program "
            "deleted it."
        )
    return None


def not_a_directory(path: str) -> NotADirectoryError:
    """Return the error for a directory whose name is taken by a file.

    ``os.mkdir`` then raises "exists", which a commit would treat as a commit of another writer.
    """
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
