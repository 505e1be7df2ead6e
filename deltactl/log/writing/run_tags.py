"""What a ``commitInfo`` says of the program and the run that made the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltactl import __version__

RUN_TAG: Final = "deltactl.runId"


def run_tags(run_id: str | None) -> Mapping[str, str]:
    """The tag for a run that has an id of its own, by which its log is found."""
    return {} if run_id is None else {RUN_TAG: run_id}


def engine_info(engine: str, reason: str = "") -> str:
    """The ``engineInfo``: this program, its version, where the work was done, and why there."""
    return f"deltactl/{__version__} ({engine} engine{reason and f': {reason}'})"
