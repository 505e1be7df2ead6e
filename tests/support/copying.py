"""Copy single files from store to store."""

from deltactl.storage.copying import CopiedFile, FileToCopy, copy_many
from deltactl.storage.store import Store


def copy_file(
    source: Store, source_path: str, target: Store, target_path: str, *, size_bytes: int
) -> CopiedFile:
    """Copy one file; see ``copy_many``."""
    files = [FileToCopy(source_path, target_path, size_bytes)]
    return copy_many(source, files, target)[0]
