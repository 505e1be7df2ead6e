"""Where a command's tasks run: the options of all commands that have some, and what they lead to.

They are added by ``cli/group.py`` to each command whose row of the command table says so; a command
does not declare them, and asks its session for the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltactl.cli.engines import SharedSpark, shared_spark
from deltactl.cli.options.common import parse_choice, parse_pairs
from deltactl.cli.settings.sources import Origin, Source, resolve_setting
from deltactl.engine.base import Engine, EngineChoice
from deltactl.engine.choose import (
    DEFAULT_SPARK_THRESHOLD_BYTES,
    Decision,
    EngineName,
    SparkFacts,
    choose_engine,
    fall_back,
)
from deltactl.errors import EngineUnavailableError, UsageError, Warn
from deltactl.units import parse_size

if TYPE_CHECKING:
    from deltactl.engine.spark.session import SparkSettings


EngineOption = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        help="Where tasks run, by default auto: Spark where a cluster is named or the input is "
        "large, else this process",
        show_default=False,
    ),
]
SparkThresholdOption = Annotated[
    str | None,
    typer.Option(
        "--spark-threshold",
        metavar="SIZE",
        help="Input from which on auto takes Spark  [default: 1GiB]",
        show_default=False,
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master, e.g. yarn or local[4]  [default: local[*]]",
        show_default=False,
    ),
]
SparkRemoteOption = Annotated[
    str | None,
    typer.Option(
        "--spark-remote",
        metavar="URL",
        help="Spark Connect server, e.g. sc://host:15002",
        show_default=False,
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="KEY=VALUE",
        help="A setting for Spark; may be repeated",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options as they were typed, then as other sources complete them."""

    engine: EngineName | None = None
    spark_threshold: str | None = None
    master: str | None = None
    spark_remote: str | None = None
    spark_conf: Sequence[str] = field(default=(), repr=False)

    @classmethod
    def take(cls, params: dict[str, Any]) -> EngineOptions:
        """Move these options out of parsed parameters."""
        given = {f.name: params.pop(f.name, None) for f in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})

    def resolve(self, sources: Sequence[Source]) -> ResolvedEngine:
        """Fill in what other sources say about what was not typed.

        Raises:
            UsageError: a value that cannot be understood, or options that exclude each other.
        """
        engine = resolve_setting(
            "engine",
            self.engine,
            parse=lambda text: parse_choice(text, EngineName, "an engine"),
            default=EngineName.AUTO,
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
                raise UsageError(f"{flag} means nothing with --engine local")
            master = remote = None
        return ResolvedEngine(
            engine.value,
            threshold.value,
            master,
            remote,
            parse_pairs("--spark-conf", self.spark_conf),
        )

    def _resolve_place(self, sources: Sequence[Source]) -> tuple[str | None, str | None]:
        """Master and remote; a flag for the one puts the other's variable out of force."""
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
            raise UsageError(f"{master.name} and {remote.name} are both set", hint="unset one")
        return master.value, None


@dataclass(frozen=True, slots=True)
class ResolvedEngine:
    """Engine options with everything filled in."""

    engine: EngineName
    threshold_bytes: int
    master: str | None
    remote: str | None = field(repr=False)
    conf: Mapping[str, str] = field(repr=False)


def declare_engine_options(
    engine: EngineOption = None,
    spark_threshold: SparkThresholdOption = None,
    master: MasterOption = None,
    spark_remote: SparkRemoteOption = None,
    spark_conf: SparkConfOption = None,
) -> None:
    """Carry the declarations above in the only form that Typer reads: a signature."""


@dataclass(slots=True)
class CliEngines:
    """The source of a command's engine (see ``deltactl.engine.base.EngineSource``)."""

    options: ResolvedEngine
    environ: Mapping[str, str]
    table: str
    warn: Warn
    note: Callable[[str], None]
    verbose: int
    max_concurrent: int | None
    memory_bytes: int | None
    jobs: int
    spark: SharedSpark
    _facts: SparkFacts | None = None

    def choose(self, input_bytes: int) -> EngineChoice:
        """Decide by what was asked for and by what is there; warn when Spark is missing."""
        return self._decide(input_bytes).choice

    def open(self, input_bytes: int) -> Engine:
        """Give the engine, started.

        Where nobody named Spark and it cannot start, the work is done in this process.
        """
        decision = self._decide(input_bytes)
        if decision.choice.name == "local":
            return self._local(decision.choice.reason)
        try:
            return self._spark(decision.choice.reason)
        except EngineUnavailableError as error:
            facts = self._look()
            if self.options.engine is not EngineName.AUTO or facts.cluster is not None:
                raise
            fallen = fall_back(decision.choice.reason, error.message)
            self.warn(fallen.warning or "")
            return self._local(fallen.choice.reason)

    def _decide(self, input_bytes: int) -> Decision:
        wish = self.options.engine
        decision = choose_engine(wish, self._look(), input_bytes, self.options.threshold_bytes)
        if decision.warning is not None:
            self.warn(decision.warning)
        return decision

    def _look(self) -> SparkFacts:
        if self._facts is None:
            from deltactl.engine.spark.facts import load_spark_facts

            self._facts = load_spark_facts(
                self.environ, master=self.options.master, remote=self.options.remote
            )
        return self._facts

    def _local(self, reason: str) -> Engine:
        from deltactl.engine.local import LocalEngine, count_cores

        workers = max(1, (self.max_concurrent or count_cores()) // self.jobs)
        memory = None if self.memory_bytes is None else self.memory_bytes // self.jobs
        return LocalEngine(workers, memory, reason)

    def _spark(self, reason: str) -> Engine:
        from deltactl.engine.spark.engine import SparkEngine
        from deltactl.storage.open import package_of

        self.note(f"starting Spark ({reason})")
        session = self.spark.open(self._settings(), self.environ)
        package = package_of(self.table)
        engine = SparkEngine(
            session,
            reason=reason,
            max_concurrent=self.max_concurrent,
            packages=[] if package is None else [package],
        )
        engine.prepare()
        return engine

    def _settings(self) -> SparkSettings:
        from deltactl.engine.spark.session import SparkSettings

        return SparkSettings(
            self.options.master,
            self.options.remote,
            self.options.conf,
            self.verbose,
            self.max_concurrent,
        )


@contextmanager
def open_engines(
    options: ResolvedEngine,
    *,
    environ: Mapping[str, str],
    table: str,
    warn: Warn,
    note: Callable[[str], None],
    verbose: int,
    max_concurrent: int | None,
    memory_bytes: int | None,
    jobs: int = 1,
    spark: SharedSpark | None = None,
) -> Iterator[CliEngines]:
    """Give the source of engines; what it starts is stopped at the end of the context.

    ``jobs`` runs share this process, and ``spark`` where one is given: that is not stopped here.
    """
    with nullcontext(spark) if spark is not None else shared_spark() as shared:
        yield CliEngines(
            options,
            environ,
            table,
            warn,
            note,
            verbose,
            max_concurrent,
            memory_bytes,
            jobs,
            shared,
        )
