"""Define options of all commands that run tasks: the engine and where it runs.

A command does not take them: it gets the engine from its session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deltactl.engine.choose import DEFAULT_SPARK_THRESHOLD_BYTES, EngineName
from deltactl.errors import UsageError
from deltactl.option_fields import Pairs, execution_option
from deltactl.units import SizeBytes


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engine options of a run."""

    engine: EngineName = execution_option(
        EngineName.AUTO,
        "Where tasks run. local: in this process. spark: on Spark. auto: on Spark if a cluster is "
        "configured or the input size is at least --spark-threshold, else in this process",
        is_settable=True,
    )
    threshold_bytes: SizeBytes = execution_option(
        DEFAULT_SPARK_THRESHOLD_BYTES,
        "With --engine auto: use Spark if the input has at least this size",
        flag="spark-threshold",
        is_settable=True,
    )
    master: str | None = execution_option(
        None,
        "Address of the Spark master, e.g. yarn or local[4]",
        metavar="URL",
        default="local[*]",
        is_settable=True,
    )
    spark_remote: str | None = execution_option(
        None,
        "Address of the Spark Connect server, e.g. sc://host:15002",
        metavar="URL",
        is_settable=True,
    )
    spark_conf: Pairs = execution_option(
        {},
        "Set this configuration property of Spark; may be repeated",
        metavar="KEY=VALUE",
        is_repeated=True,
    )
    origins: Mapping[str, str] = field(default_factory=dict)

    def choose_place(self) -> EngineOptions:
        """Return the options with at most one of master and remote.

        An option for one overrides the variable for the other.

        Raises:
            UsageError: options or variables cannot be combined.
        """
        master, remote = self.origins.get("master"), self.origins.get("spark_remote")
        typed = [place for place in (master, remote) if place and place.startswith("--")]
        if self.engine is EngineName.LOCAL and self.origins.get("engine") == "--engine":
            if typed:
                raise UsageError(f"{typed[0]} has no effect with --engine local")
            return replace(self, master=None, spark_remote=None)
        if len(typed) == 2:
            raise UsageError("give --master or --spark-remote, not both")
        if typed:
            kept = {"spark_remote": None} if typed == ["--master"] else {"master": None}
            return replace(self, **kept)  # type: ignore[arg-type]
        if master and remote:
            raise UsageError(
                f"{master} and {remote} are both set, but only one is allowed",
                hint="Unset one of them.",
            )
        return self

    def __repr__(self) -> str:
        """Hide addresses and properties, which may contain secrets."""
        return f"EngineOptions(engine={self.engine!r})"
