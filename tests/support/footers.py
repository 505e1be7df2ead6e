"""A file's footer, as the program reads one before it asks for columns."""

from __future__ import annotations

import pyarrow.parquet as pq

from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.sound_footers import find_unsound
from deltactl.storage.store import Store


def read_sound_footer(store: Store, name: str, size_bytes: int) -> pq.FileMetaData:
    """Read a footer whose columns may be asked for; raises ``DataFileError``."""
    footer = parse_footer(store, name, size_bytes)
    for problem in find_unsound([footer]).values():
        raise problem
    return footer.metadata
