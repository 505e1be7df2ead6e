"""Pack this package as a zip file, so that executors run the code of this process."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_PACKAGE = "deltactl"
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that the same code always gives the same file


def write_package() -> Path:
    """Write the zip into a new temporary directory, under a name derived from its content."""
    sources = sorted(_iter_sources(files(_PACKAGE), _PACKAGE))
    digest = hashlib.sha256()
    for name, data in sources:
        digest.update(f"{name}:{len(data)}:".encode())
        digest.update(data)
    directory = Path(tempfile.mkdtemp(prefix="deltactl-package-"))
    path = directory / f"{_PACKAGE}-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sources:
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), data, zipfile.ZIP_DEFLATED)
    return path


def _iter_sources(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in directory.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _iter_sources(entry, name)
        elif entry.name.endswith((".py", ".typed")):
            yield name, entry.read_bytes()
