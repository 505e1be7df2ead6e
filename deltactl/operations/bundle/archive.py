"""Write a bundle as one zip, which is visible only when complete."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from deltactl.errors import ObjectExistsError, SafetyError
from deltactl.storage.local.store import LocalStore


def ensure_free(path: Path, *, force: bool) -> None:
    """Refuse a file that exists, unless it may be replaced.

    Raises:
        SafetyError: it exists.
    """
    if path.exists() and not force:
        raise _exists(path)


def write_archive(
    path: Path, files: Iterable[tuple[str, bytes]], *, now_ms: int, force: bool
) -> int:
    """Write the files in this order, and return the size of the zip.

    Raises:
        SafetyError: the file exists and ``force`` is not given.
        StorageError: it cannot be written.
    """
    buffer = io.BytesIO()
    time = datetime.fromtimestamp(now_ms / 1000, UTC).timetuple()[:6]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name, time)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            archive.writestr(info, data)
    store = LocalStore(str(path.parent))
    if force:
        store.put(path.name, buffer.getvalue())
        return len(buffer.getvalue())
    try:
        store.put_if_absent(path.name, buffer.getvalue())
    except ObjectExistsError:
        raise _exists(path) from None
    return len(buffer.getvalue())


def _exists(path: Path) -> SafetyError:
    return SafetyError(
        f"{path} exists already, and was not replaced", hint="Give another file, or add --force."
    )
