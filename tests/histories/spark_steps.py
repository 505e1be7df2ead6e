"""The steps that Delta on Spark takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.histories.plan import History
from tests.histories.state import RefusedError, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create(spark: SparkSession, history: History, path: Path) -> None:
    raise NotImplementedError


def take_step(
    spark: SparkSession, kind: str, chance: random.Random, number: int, state: State
) -> str:
    raise NotImplementedError


def forget_tables(spark: SparkSession) -> None:
    pass
