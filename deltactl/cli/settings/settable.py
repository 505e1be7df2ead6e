"""List the options that a variable or a line of ``deltactl.toml`` can set."""

from __future__ import annotations

from typing import Final

# Options that control how a run works may be set for all runs. Options that select what a run
# changes, or that disable a safety rule, must be given on each command line.
SETTABLE: Final = frozenset(
    (
        "budget",
        "codec",
        "commit-every",
        "compat",
        "ddb-region",
        "ddb-table-name",
        "debug",
        "engine",
        "jobs",
        "keep-last",
        "kind",
        "log-format",
        "log-store",
        "master",
        "max-bytes",
        "max-concurrent",
        "max-deleted-rows-ratio",
        "max-files",
        "max-requests-per-second",
        "memory",
        "metrics",
        "min-file-size",
        "min-input-files",
        "min-interval",
        "min-row-group",
        "mode",
        "output",
        "progress",
        "quarantine",
        "quarantine-for",
        "quiet",
        "report",
        "retain",
        "rewrite",
        "schema-mode",
        "sidecar-size",
        "skip-hot",
        "spark-remote",
        "spark-threshold",
        "target-size",
        "timeout",
        "timeout-grace",
        "top-file",
        "verify",
    )
)
"""Options that may also be set by a variable or a line of ``deltactl.toml``."""
