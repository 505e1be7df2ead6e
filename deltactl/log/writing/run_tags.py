"""Name the program and the run in ``commitInfo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltactl import __version__

RUN_TAG: Final = "deltactl.runId"


def run_tags(run_id: str | None) -> Mapping[str, str]:
    """Return the tag with the id of a run, which is also in its log lines."""
    return {} if run_id is None else {RUN_TAG: run_id}


def engine_info(engine: str, reason: str = "") -> str:
    """Return the ``engineInfo``: this program, its version, the engine and the reason for it."""
    return f"deltactl/{__version__} ({engine} engine{reason and f': {reason}'})"
