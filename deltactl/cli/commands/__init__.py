"""The command table. A command is a module with ``def command(ctx, ...)``, loaded when run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A row of the table: enough for ``deltactl --help`` without loading the command."""

    name: str
    help: str
    package: str = __name__
    has_engine: bool = False
    """Whether it takes the options of ``cli/engine_options.py``."""
    commits: bool = False
    """Whether it takes the options of ``cli/log_store_options.py``."""
    is_hidden: bool = False
    """Whether it is for programs, and left out of what people read."""

    @property
    def module(self) -> str:
        """Where the command lives: its name with dashes as underscores."""
        return f"{self.package}.{self.name.replace('-', '_')}"


COMMANDS: Final = (
    CommandSpec("describe-history", "Show the commits of a table, newest first"),
    CommandSpec("describe-detail", "Show what a table is: schema, size, features"),
    CommandSpec(
        "optimize",
        "Rewrite many small files into a few of a good size",
        has_engine=True,
        commits=True,
    ),
    CommandSpec(
        "vacuum",
        "Remove files that no version needs; can be undone",
        has_engine=True,
        commits=True,
    ),
    CommandSpec(
        "checkpoint",
        "Write a checkpoint; clean up or repair the log",
        has_engine=True,
        commits=True,
    ),
    CommandSpec("check", "Tell whether log, files and statistics agree", has_engine=True),
    CommandSpec(
        "generate-manifest", "Write manifests for Athena, Trino, Hive, Redshift", commits=True
    ),
    CommandSpec(
        "convert",
        "Make a directory of Parquet files a table, in place",
        has_engine=True,
        commits=True,
    ),
    CommandSpec("explain", "Explain an error code: causes, and what to do"),
    CommandSpec("config", "Show every setting, and where it comes from"),
    CommandSpec("complete", "Print what fits on a command line", is_hidden=True),
    CommandSpec("generate-files", "Write completions and manual pages", is_hidden=True),
)
