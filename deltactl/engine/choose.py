"""Choose the engine of a job from given facts, without reading data or starting Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deltactl.units import format_size

DEFAULT_SPARK_THRESHOLD_BYTES = 1 << 30


class EngineName(StrEnum):
    """The values of ``--engine``."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """Facts about Spark that are known without starting Spark.

    ``cluster`` is the setting that selects the cluster, such as ``--master yarn``, or ``None``.
    ``missing`` is the requirement that this machine does not meet, or ``None``.
    """

    cluster: str | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The name of an engine, the reason for it, and a warning for the user."""

    name: str
    reason: str
    warning: str | None = None


def choose_engine(
    wish: EngineName, facts: SparkFacts, input_bytes: int, threshold_bytes: int
) -> EngineChoice:
    """Choose by ``--engine``, else by a configured cluster, else by the size of the input.

    If Spark cannot run, the result for ``--engine auto`` is the local engine, with a warning: a
    scheduled job must not fail when its input first exceeds the threshold. For ``--engine spark``,
    the start of the engine fails.
    """
    if wish is not EngineName.AUTO:
        where = f", {facts.cluster}" if wish is EngineName.SPARK and facts.cluster else ""
        return EngineChoice(wish.value, f"requested{where}")
    reason = _reason_for_spark(facts, input_bytes, threshold_bytes)
    if reason is None:
        threshold = format_size(threshold_bytes)
        return EngineChoice("local", f"input below {threshold}, no cluster configured")
    if facts.missing is None:
        return EngineChoice("spark", reason)
    return fall_back(reason, facts.missing)


def fall_back(reason: str, missing: str) -> EngineChoice:
    """Choose the local engine because Spark cannot run, with a warning."""
    return EngineChoice(
        "local",
        f"Spark cannot run: {missing}",
        f"Spark would be better ({reason}), but it cannot run: {missing}. deltactl does the work "
        "in this process",
    )


def _reason_for_spark(facts: SparkFacts, input_bytes: int, threshold_bytes: int) -> str | None:
    if facts.cluster is not None:
        return facts.cluster
    if input_bytes >= threshold_bytes:
        size, threshold = format_size(input_bytes), format_size(threshold_bytes)
        return f"input of {size} reaches the threshold of {threshold}"
    return None
