"""Name the program and the run in ``commitInfo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltactl import __version__

RUN_TAG: Final = "deltactl.runId"


def run_tags(run_id: str | None) -> Mapping[str, str]:
    """Return the tag with the id of a run. The log lines of the run have the same id."""
    return {} if run_id is None else {RUN_TAG: run_id}


def engine_info(engine: str, reason: str = "") -> str:
    """Return the ``engineInfo``: deltactl, its version, the engine, why it was chosen."""
    return f"deltactl/{__version__} ({engine} engine{reason and f': {reason}'})"
