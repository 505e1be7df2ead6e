"""Wrap a store so that a function is called before each change, for example to refuse it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO

from deltactl.errors import SafetyError, StorageError
from deltactl.storage.file_copies import CopiedFile, FileCopy
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.store import Assembly, Replacement, Store


class GuardedStore(ForwardingStore):
    """A store that calls ``before_change`` before each method that may change something.

    If ``before_change`` raises an error, nothing is changed. Its argument says what is changed.
    """

    def __init__(self, inner: Store, before_change: Callable[[str], None]) -> None:
        """Wrap ``inner``."""
        super().__init__(inner)
        self._before_change = before_change

    def open_output(self, name: str) -> BinaryIO:
        """See ``Store.open_output``."""
        self._before_change(f"create {name!r}")
        return super().open_output(name)

    def open_assembly(self, name: str) -> Assembly:
        """See ``RangeCopies.open_assembly``."""
        self._before_change(f"create {name!r}")
        return super().open_assembly(name)

    def copy_files(
        self, copies: Sequence[FileCopy], *, replace: bool = False
    ) -> list[CopiedFile | None]:
        """See ``FileCopies.copy_files``."""
        self._before_change(f"copy to {[copy.target_path for copy in copies[:3]]}")
        return super().copy_files(copies, replace=replace)

    def open_replacement(self, name: str) -> Replacement:
        """See ``Store.open_replacement``."""
        self._before_change(f"replace {name!r}")
        return super().open_replacement(name)

    def put(self, name: str, data: bytes) -> None:
        """See ``Store.put``."""
        self._before_change(f"write {name!r}")
        super().put(name, data)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """See ``Store.put_many``."""
        self._before_change("write files")
        return super().put_many(files)

    def ensure_put_if_absent(self) -> None:
        """See ``Store.ensure_put_if_absent``, which may write."""
        self._before_change("prepare a commit")
        super().ensure_put_if_absent()

    def put_if_absent(self, name: str, data: bytes) -> None:
        """See ``Store.put_if_absent``."""
        self._before_change(f"create {name!r}")
        super().put_if_absent(name, data)

    def sync_directories(self, names: Iterable[str]) -> None:
        """See ``Store.sync_directories``."""
        self._before_change("sync directories")
        super().sync_directories(names)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """See ``Store.delete_many``."""
        self._before_change(f"delete {names[:3]}")
        return super().delete_many(names)

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """See ``Versions.undelete_many``, which changes nothing if ``dry_run`` is true."""
        if not dry_run:
            self._before_change(f"restore {names[:3]}")
        return super().undelete_many(names, dry_run=dry_run)

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """See ``Store.move_many``."""
        self._before_change(f"move {[old for old, _ in pairs[:3]]}")
        return super().move_many(pairs)

    def abort_upload(self, name: str, upload_id: str) -> None:
        """See ``Uploads.abort_upload``."""
        self._before_change(f"abort the upload of {name!r}")
        super().abort_upload(name, upload_id)

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        """See ``Directories.remove_directories``."""
        self._before_change(f"remove {names[:3]}")
        return super().remove_directories(names)


class ReadOnlyStore(GuardedStore):
    """A store for dry runs: its writing methods raise ``SafetyError`` and change nothing.

    If a dry run calls one of them, this is a bug in deltactl.
    """

    def __init__(self, inner: Store) -> None:
        """Wrap ``inner``."""
        super().__init__(inner, _refuse)


def _refuse(change: str) -> None:
    raise SafetyError(
        f"a dry run tried to {change}",
        hint="Report this bug in deltactl. Nothing was changed.",
    )
