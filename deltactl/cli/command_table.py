"""List all commands. A command is a module with a function ``command``, imported to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A row of the table: enough for ``deltactl --help``, which loads no command."""

    name: str
    help: str
    package: str = "deltactl.cli.commands"
    has_engine: bool = False
    """Whether it takes the options of ``cli/options/engine.py``."""
    commits: bool = False
    """Whether it takes the options of ``cli/options/log_store.py``."""
    is_hidden: bool = False
    """Whether it is for programs only, and hidden in help and manual pages."""
    has_time_limit: bool = False
    """Whether it takes the options of ``cli/options/time_limit.py``."""
    takes_tables: bool = False
    """Whether it takes several tables, and the options of ``cli/options/fleet.py``."""
    has_report: bool = False
    """Whether it takes the option of ``cli/options/report.py``."""
    takes_lease: bool = False
    """Whether its runs take a lease on the table; see the options of ``cli/options/leases.py``."""
    needs_arrow: bool = True
    """Whether every run with a table needs Arrow; if not, the command calls ``load_arrow``."""

    omits: tuple[str, ...] = ()
    """Fields of the options of all commands that it does not take."""

    @property
    def only_shows(self) -> bool:
        """Return whether its page is all that it does, so that ``--quiet`` hides no page."""
        return not self.has_time_limit

    @property
    def module(self) -> str:
        """Return the module of the command: its name with underscores for dashes."""
        return f"{self.package}.{self.name.replace('-', '_')}"


def _maintenance(
    name: str,
    text: str,
    *,
    has_engine: bool = True,
    has_report: bool = False,
) -> CommandSpec:
    return CommandSpec(
        name,
        text,
        has_engine=has_engine,
        has_report=has_report,
        commits=True,
        has_time_limit=True,
        takes_tables=True,
        takes_lease=True,
    )


COMMANDS: Final = (
    CommandSpec("describe-history", "Show the commits of a table, newest first", needs_arrow=False),
    CommandSpec(
        "describe-detail",
        "Show schema, size, properties and features of a table",
    ),
    _maintenance(
        "optimize",
        "Merge small files into larger ones",
        has_report=True,
    ),
    _maintenance(
        "vacuum",
        "Remove files that no recent version of the table needs",
        has_report=True,
    ),
    _maintenance("checkpoint", "Write a checkpoint; clean up or repair the log"),
    CommandSpec(
        "maintain",
        "Maintain many tables within a budget, best actions first",
        has_engine=True,
        commits=True,
        has_time_limit=True,
        takes_tables=True,
        has_report=True,
    ),
    CommandSpec(
        "check",
        "Check whether log, files and statistics agree",
        has_engine=True,
        commits=True,
        has_time_limit=True,
        takes_tables=True,
    ),
    _maintenance(
        "generate-manifest",
        "Write manifests for Athena, Trino, Hive, Redshift",
        has_engine=False,
    ),
    CommandSpec(
        "restore",
        "Restore an earlier version of a table, as a new version",
        has_engine=True,
        commits=True,
        has_time_limit=True,
    ),
    CommandSpec(
        "clone",
        "Clone a table: copy its files, or only refer to them",
        has_engine=True,
        commits=True,
        has_time_limit=True,
    ),
    CommandSpec(
        "convert",
        "Convert a directory of Parquet files to a table, in place",
        has_engine=True,
        commits=True,
        has_time_limit=True,
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
