"""Wrap a store for dry runs, so that nothing can be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import BinaryIO, NoReturn

from deltactl.errors import SafetyError, StorageError
from deltactl.storage.file_copies import CopiedFile, FileCopy
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.store import Assembly, Replacement


class ReadOnlyStore(ForwardingStore):
    """A store whose writing methods raise ``SafetyError`` and change nothing.

    If a dry run calls one of them, this is a bug in deltactl.
    """

    def open_output(self, name: str) -> BinaryIO:
        """Raise ``SafetyError``."""
        self._refuse("create", name)

    def open_assembly(self, name: str) -> Assembly:
        """Raise ``SafetyError``."""
        self._refuse("create", name)

    def copy_files(
        self, copies: Sequence[FileCopy], *, replace: bool = False
    ) -> list[CopiedFile | None]:
        """Raise ``SafetyError``."""
        self._refuse("copy to", ", ".join(copy.target_path for copy in copies[:3]))

    def open_replacement(self, name: str) -> Replacement:
        """Raise ``SafetyError``."""
        self._refuse("replace", name)

    def put(self, name: str, data: bytes) -> None:
        """Raise ``SafetyError``."""
        self._refuse("write", name)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """Raise ``SafetyError``."""
        self._refuse("write", ", ".join(name for name, _ in islice(files, 3)))

    def ensure_put_if_absent(self) -> None:
        """Raise ``SafetyError``, because this method may write."""
        self._refuse("prepare", "a commit")

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Raise ``SafetyError``."""
        self._refuse("create", name)

    def sync_directories(self, names: Iterable[str]) -> None:
        """Raise ``SafetyError``."""
        self._refuse("sync", ", ".join(names))

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Raise ``SafetyError``."""
        self._refuse("delete", ", ".join(names[:3]))

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """Raise ``SafetyError`` unless ``dry_run`` is true."""
        if not dry_run:
            self._refuse("restore", ", ".join(names[:3]))
        return super().undelete_many(names, dry_run=dry_run)

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Raise ``SafetyError``."""
        self._refuse("move", ", ".join(old for old, _ in pairs[:3]))

    def abort_upload(self, name: str, upload_id: str) -> None:
        """Raise ``SafetyError``."""
        self._refuse("abort the upload of", name)

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        """Raise ``SafetyError``."""
        self._refuse("remove", ", ".join(names[:3]))

    def _refuse(self, verb: str, name: str) -> NoReturn:
        raise SafetyError(
            f"a dry run tried to {verb} {name!r}",
            hint="Report this bug in deltactl. Nothing was changed.",
        )
