"""Read which files the newest Iceberg metadata of a table refer to. Needs pyiceberg.

Delta on Spark commits to a UniForm table first, and converts the commit to Iceberg metadata later.
Until then Iceberg clients read the files of an earlier version.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.serializers import FromInputFile

from deltactl.errors import SafetyError, first_line
from deltactl.storage.store import Store

DIRECTORY: Final = "metadata/"
"""Where the Iceberg metadata of a table are, below its root."""

# "v12.metadata.json" of file systems, "00012-<uuid>.metadata.json" of catalogs; either may be gzip.
_NAME = re.compile(
    rf"{DIRECTORY}(?P<form>v?)(?P<number>\d{{1,18}})(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?"
)


def newest_metadata(store: Store) -> list[str]:
    """Return the names of the metadata files with the highest number, of each form of names.

    The times of files do not decide, so several files may have the highest number.
    """
    matches = [
        match for file in store.list_from(DIRECTORY) if (match := _NAME.fullmatch(file.name))
    ]
    highest: dict[str, int] = {}
    for match in matches:
        highest[match["form"]] = max(int(match["number"]), highest.get(match["form"], 0))
    return [match[0] for match in matches if int(match["number"]) == highest[match["form"]]]


def referenced_addresses(store: Store, names: Sequence[str]) -> Iterator[pa.ChunkedArray]:
    """Yield the absolute addresses of all files that the metadata files ``names`` refer to.

    These are data files, delete files and statistics of all their snapshots, and the manifests and
    lists of manifests. Each manifest is read once, and only its entries are in memory. An address
    with ``%`` is given decoded too: Iceberg does not say which form it has.

    Raises:
        SafetyError: a file of the metadata cannot be read.
    """
    files, seen = _StoreIO(store), set[str]()
    for name in names:
        with _explained(name):
            metadata = FromInputFile.table_metadata(StoreFile(name, store.read(name)))
        others = [file.statistics_path for file in metadata.statistics]
        others += [file.statistics_path for file in metadata.partition_statistics]
        for snapshot in metadata.snapshots:
            others.append(snapshot.manifest_list)
            with _explained(snapshot.manifest_list):
                manifests = snapshot.manifests(files)
            for manifest in manifests:
                if manifest.manifest_path in seen:
                    continue
                seen.add(manifest.manifest_path)
                with _explained(manifest.manifest_path):
                    entries = manifest.fetch_manifest_entry(files)
                yield _column([entry.data_file.file_path for entry in entries])
        yield _column([*others, *seen])


def _column(addresses: Sequence[str]) -> pa.ChunkedArray:
    decoded = [unquote(address) for address in addresses if "%" in address]
    return pa.chunked_array([pa.array([*addresses, *decoded], pa.string())])


@contextmanager
def _explained(address: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # pyiceberg raises errors of several libraries
        raise SafetyError(
            f"it is unknown which files the Iceberg metadata of this table refer to: {address} "
            f"cannot be read: {first_line(error)}",
            hint="Convert the table to Iceberg again, which writes new metadata; or turn UniForm "
            "off if no Iceberg client reads the table.",
        ) from error


class _StoreIO(FileIO):
    """Files of the store, by their absolute addresses."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def new_input(self, location: str) -> InputFile:
        [name] = self._store.real_names([location])
        if name is None:
            raise FileNotFoundError(f"it is not below {self._store.uri}")
        return StoreFile(location, self._store.read(name))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


class StoreFile(InputFile):
    """A file whose content was read."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        """Return that it exists."""
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """Return the content as a stream."""
        del seekable
        return io.BytesIO(self._content)
