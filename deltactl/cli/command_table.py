"""List all commands. A command is a module with a function ``command``, imported to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.cli.options.common import ReportOptions, TimeLimit
from deltactl.cli.options.engine import EngineOptions
from deltactl.cli.options.fleet import FleetOptions
from deltactl.cli.options.leases import LeaseOptions
from deltactl.cli.options.log_store import LogStoreOptions
from deltactl.commit_options import CommitOptions


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A row of the table: enough for ``deltactl --help``, which loads no command.

    ``shared`` are classes of options that its function does not take; ``omits`` are fields of the
    options of all commands that it does not have.
    """

    name: str
    help: str
    shared: tuple[type, ...] = ()
    omits: tuple[str, ...] = ()
    package: str = "deltactl.cli.commands"
    is_hidden: bool = False
    """Whether it is for programs only, and hidden in help and manual pages."""
    needs_arrow: bool = True
    """Whether every run with a table needs Arrow; if not, the command calls ``load_arrow``."""

    @property
    def module(self) -> str:
        """Return the module of the command: its name with underscores for dashes."""
        return f"{self.package}.{self.name.replace('-', '_')}"


_LOG_OPTIONS: Final = (LogStoreOptions, TimeLimit)
_COMMIT_OPTIONS: Final = (CommitOptions, *_LOG_OPTIONS)
_TASK_OPTIONS: Final = (EngineOptions, *_COMMIT_OPTIONS)

COMMANDS: Final = (
    CommandSpec("describe-history", "Show the commits of a table, newest first", needs_arrow=False),
    CommandSpec(
        "describe-detail",
        "Show schema, size, properties and features of a table",
        (FleetOptions, ReportOptions),
    ),
    CommandSpec(
        "optimize",
        "Merge small files into larger ones",
        (*_TASK_OPTIONS, FleetOptions, ReportOptions, LeaseOptions),
    ),
    CommandSpec(
        "vacuum",
        "Remove files that no recent version of the table needs",
        (*_TASK_OPTIONS, FleetOptions, ReportOptions, LeaseOptions),
    ),
    CommandSpec(
        "checkpoint",
        "Write a checkpoint; clean up or repair the log",
        (EngineOptions, *_LOG_OPTIONS, FleetOptions, LeaseOptions),
    ),
    CommandSpec(
        "maintain",
        "Maintain many tables within a budget, best actions first",
        (*_TASK_OPTIONS, FleetOptions, ReportOptions),
    ),
    CommandSpec(
        "check",
        "Check whether log, files and statistics agree",
        (*_TASK_OPTIONS, FleetOptions, ReportOptions),
    ),
    CommandSpec(
        "generate-manifest",
        "Write manifests for Athena, Trino, Hive, Redshift",
        (*_COMMIT_OPTIONS, FleetOptions, LeaseOptions),
    ),
    CommandSpec("alter", "Change properties and table features", (*_TASK_OPTIONS, FleetOptions)),
    CommandSpec("register", "Register a table in AWS Glue, Hive or Unity Catalog", (TimeLimit,)),
    CommandSpec(
        "restore", "Restore an earlier version of a table, as a new version", _TASK_OPTIONS
    ),
    CommandSpec("clone", "Clone a table: copy its files, or only refer to them", _TASK_OPTIONS),
    CommandSpec(
        "convert", "Convert a directory of Parquet files to a table, in place", _TASK_OPTIONS
    ),
    CommandSpec(
        "explain",
        "Explain an error code: causes, and what to do",
        omits=("output", "max_requests_per_second", "progress", "storage_option"),
    ),
    CommandSpec(
        "config",
        "Show every setting, and where its value comes from",
        omits=("output", "max_requests_per_second", "progress"),
    ),
    CommandSpec("complete", "Print completions for a command line", is_hidden=True),
)
