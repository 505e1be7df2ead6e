"""Tables without a schema: what works on them, and what is refused because it would lose data.

Version 0 of tables that Delta Live Tables makes has a ``metaData`` without ``schemaString``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.clock import FixedClock
from deltactl.errors import CorruptLogError, SafetyError
from deltactl.log.snapshot import load_snapshot
from deltactl.log.version_checksum import write_checksum
from deltactl.operations.checkpoint import checkpoint_table
from deltactl.operations.checkpoint_options import CheckpointOptions
from deltactl.operations.scan import scan_snapshot
from tests.support.checkpoints import fail
