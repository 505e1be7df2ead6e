"""Define options of all commands that run tasks: the engine and where it runs.

``cli/group.py`` adds them to each command with ``has_engine`` in the command table. A command does
not declare them: it gets the engine from its session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from deltactl.cli.options.common import parse_choice, parse_pairs
from deltactl.cli.options.declared import Options
from deltactl.cli.settings.sources import Origin, Source, resolve_setting
from deltactl.engine.choose import (
    DEFAULT_SPARK_THRESHOLD_BYTES,
    EngineName,
)
from deltactl.errors import UsageError
from deltactl.units import format_compact_size, parse_size

_DEFAULT_ENGINE: Final = EngineName.AUTO


@dataclass(frozen=True, slots=True)
class EngineOptions(Options):
    """The engine options of the command line."""

    engine: Annotated[
        EngineName | None,
        typer.Option(
            "--engine",
            help="Where tasks run. local: in this process. spark: on Spark. auto: on Spark if a "
            "cluster is configured or the input size is at least --spark-threshold, else in this "
            f"process  [default: {_DEFAULT_ENGINE}]",
            show_default=False,
        ),
    ] = None
    spark_threshold: Annotated[
        str | None,
        typer.Option(
            "--spark-threshold",
            metavar="SIZE",
            help="With --engine auto: use Spark if the input has at least this size  [default: "
            f"{format_compact_size(DEFAULT_SPARK_THRESHOLD_BYTES)}]",
            show_default=False,
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Address of the Spark master, e.g. yarn or local[4]  [default: local[*]]",
            show_default=False,
        ),
    ] = None
    spark_remote: Annotated[
        str | None,
        typer.Option(
            "--spark-remote",
            metavar="URL",
            help="Address of the Spark Connect server, e.g. sc://host:15002",
            show_default=False,
        ),
    ] = None
    spark_conf: Annotated[
        list[str],
        typer.Option(
            "--spark-conf",
            metavar="KEY=VALUE",
            help="Set this configuration property of Spark; may be repeated",
            show_default=False,
        ),
    ] = field(default_factory=list, repr=False)

    def resolve(self, sources: Sequence[Source]) -> ResolvedEngine:
        """Fill in the options that are not on the command line from the other sources.

        Raises:
            UsageError: a value is invalid, or options cannot be combined.
        """
        engine = resolve_setting(
            "engine",
            self.engine,
            parse=lambda text: parse_choice(text, EngineName, "an engine"),
            default=_DEFAULT_ENGINE,
            sources=sources,
        )
        threshold = resolve_setting(
            "spark-threshold",
            None if self.spark_threshold is None else parse_size(self.spark_threshold),
            parse=parse_size,
            default=DEFAULT_SPARK_THRESHOLD_BYTES,
            sources=sources,
        )
        master, remote = self._resolve_place(sources)
        if engine.origin is Origin.FLAG and engine.value is EngineName.LOCAL:
            if self.master or self.spark_remote:
                flag = "--master" if self.master else "--spark-remote"
                raise UsageError(f"{flag} has no effect with --engine local")
            master = remote = None
        return ResolvedEngine(
            engine.value,
            threshold.value,
            master,
            remote,
            parse_pairs("--spark-conf", self.spark_conf),
        )

    def _resolve_place(self, sources: Sequence[Source]) -> tuple[str | None, str | None]:
        """Return master and remote; an option for one overrides the variable for the other."""
        if self.master and self.spark_remote:
            raise UsageError("give --master or --spark-remote, not both")
        master = resolve_setting("master", self.master, parse=str, default=None, sources=sources)
        remote = resolve_setting(
            "spark-remote", self.spark_remote, parse=str, default=None, sources=sources
        )
        if master.origin is Origin.FLAG:
            return master.value, None
        if remote.origin is Origin.FLAG or master.value is None:
            return None, remote.value
        if remote.value is not None:
            raise UsageError(
                f"{master.name} and {remote.name} are both set, but only one is allowed",
                hint="Unset one of them.",
            )
        return master.value, None


@dataclass(frozen=True, slots=True)
class ResolvedEngine:
    """The engine options, completed from all sources."""

    engine: EngineName
    threshold_bytes: int
    master: str | None
    remote: str | None = field(repr=False)
    conf: Mapping[str, str] = field(repr=False)
