"""Read a file's footer as the program does before it asks for columns."""

import pyarrow.parquet as pq

from deltactl.parquet.broken_footers import find_broken_footers
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.storage.store import Store


def read_valid_footer(store: Store, name: str, size_bytes: int) -> pq.FileMetaData:
    """Return a footer with valid columns; raise ``DataFileError`` for any other."""
    footer = parse_footer(store, name, size_bytes)
    for problem in find_broken_footers([footer]).values():
        raise problem
    return footer.metadata
