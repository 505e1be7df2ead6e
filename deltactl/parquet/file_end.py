"""How every Parquet file ends: the length of its footer, and the magic. Arrow is not needed here.

Source: the Parquet format, "File format".
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"PAR1"
END_BYTES: Final = 8
