"""Convert names of a table to keys of an object store, and errors of libraries to deltactl's."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from deltactl.errors import StorageError
from deltactl.storage.errors import map_error
from deltactl.storage.names import (
    ONE_STORAGE_HINT,
    is_absolute_name,
    is_plain_name,
    parse_scheme,
    refuse_nul,
    resolve_name,
    resolve_prefix,
)
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.providers import Access


class ObjectKeys:
    """Keys below one root.

    Attributes:
        uri: the root as it was given.
        root: the key of the root.
    """

    def __init__(
        self,
        uri: str,
        root: str,
        service: ObjectService,
        schemes: frozenset[str],
        secrets: Sequence[str],
        *,
        access: Access,
    ) -> None:
        """Map names below ``root``; absolute names can have any of ``schemes``.

        The values in ``secrets`` are removed from messages; ``access`` helps in them.
        """
        self.uri, self.root = uri, root
        self._base = f"{root}/"
        self._service = service
        self._schemes = schemes
        self._secrets, self._access = secrets, access

    def readable(self, name: str) -> str:
        """Return the key of a name in the table, or of an absolute name on the same storage."""
        if is_plain_name(name):
            return self._base + name
        if not is_absolute_name(name):
            return self._base + resolve_name(name)
        refuse_nul(name)
        if parse_scheme(name) not in self._schemes:
            raise StorageError(
                f"{name!r} is on another kind of storage than the table {self.uri}",
                hint=ONE_STORAGE_HINT,
            )
        with self.mapped("read", name):
            return self._service.key_of(name)

    def directory(self, prefix: str) -> tuple[str, str]:
        """Return the key of a directory, and the prefix of the names in it."""
        if is_absolute_name(prefix):
            return self.readable(prefix.rstrip("/")), f"{prefix.rstrip('/')}/"
        relative = resolve_prefix(prefix)
        return (self._base + relative, f"{relative}/") if relative else (self.root, "")

    def writable(self, name: str) -> str:
        """Return the key of a name in the table.

        Raises:
            SafetyError: the name is outside the root.
        """
        return self._base + resolve_name(name)

    def mapper(self, verb: str, name: str) -> Callable[[Exception], StorageError]:
        """Return a function that converts an error of the library to one of deltactl."""
        return lambda error: map_error(
            error, verb, name, self.uri, self._secrets, access=self._access
        )

    @contextmanager
    def mapped(self, verb: str, name: str) -> Iterator[None]:
        """Convert errors of the library inside the block to errors of deltactl."""
        try:
            yield
        except Exception as error:
            raise self.mapper(verb, name)(error) from error

    def real_name(self, name: str) -> str | None:
        """Return the normal form of a name; ``None`` for a name outside of the table."""
        key = self.readable(name) if is_absolute_name(name) else self._base + name
        directory, slash, rest = key.partition("/")
        # Without the bucket, so that `..` does not lead to another one.
        key = directory + slash + posixpath.normpath(rest) if rest else key.rstrip("/")
        if key == self.root:
            return ""
        return key[len(self._base) :] if key.startswith(self._base) else None
