"""Run Spark jobs. This module contains all differences between classic Spark and Spark Connect."""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import finalize

import pyarrow as pa

from deltactl.engine.spark.bundles import Job, encode_bundle
from deltactl.engine.spark.package import write_package
from deltactl.engine.spark.shuffle import PIECE_SCHEMA, SOURCE_SCHEMA
from deltactl.engine.spark.worker import RESULT_SCHEMA, Batches
from deltactl.lazy import cached_property

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark adds executors only if tasks wait.
_SLOTS_TO_GROW_TO: Final = 32
_PROBED_ROWS: Final = 4096


def is_connect(session: SparkSession) -> bool:
    """Return whether a session uses a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def functions_of(session: SparkSession) -> Any:
    """Return the module with the functions for columns of this session.

    ``pyspark.sql.functions`` chooses the kind of session from the environment, but a process may
    have sessions of both kinds.
    """
    name = "pyspark.sql.connect.functions" if is_connect(session) else "pyspark.sql.functions"
    return import_module(name)


class SparkJobs:
    """Jobs of one run on a session. The session is neither changed nor stopped."""

    def __init__(self, session: SparkSession) -> None:
        """Take a session, classic or Connect."""
        self._session = session
        self._tag = f"deltactl-{uuid.uuid4().hex[:12]}"
        self._schema = _spark_schema(RESULT_SCHEMA)
        self.is_connect = is_connect(session)

    def run_this_python(self) -> bool:
        """Return whether tasks run on this machine with the Python of this process."""
        if self.is_connect:
            return False
        context = self._session.sparkContext
        is_local = (context.master or "").startswith("local[")
        return is_local and context.pythonExec == sys.executable

    def count_slots(self) -> int:
        """Return the number of tasks that can run at once, as Spark reports it."""
        slots = self._count_default_partitions()
        return max(slots, _SLOTS_TO_GROW_TO) if self._grows else slots

    @cached_property
    def _grows(self) -> bool:
        """Return whether Spark requests more executors when more tasks wait."""
        said = self._session.conf.get("spark.dynamicAllocation.enabled", "false")
        return said == "true"

    def _count_default_partitions(self) -> int:
        if not self.is_connect:
            return max(1, self._session.sparkContext.defaultParallelism)
        return self._connect_slots

    @cached_property
    def _connect_slots(self) -> int:
        """Return the slots of a server: the number of partitions over which it distributes rows."""
        number = functions_of(self._session).spark_partition_id()
        rows = self._session.range(_PROBED_ROWS).select(number).collect()
        return len({row[0] for row in rows})

    def ship_package(self) -> None:
        """Send this package to the executors; call this once per session."""
        package = write_package()
        if self.is_connect:
            self._session.addArtifacts(str(package), pyfile=True)
        else:
            self._session.sparkContext.addPyFile(str(package))
        # Executors download the file from this process as long as the session exists.
        finalize(self._session, shutil.rmtree, package.parent, ignore_errors=True)

    def in_threads(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function`` for use on other threads of this run.

        Job settings of the calling thread, such as a scheduler pool, then also apply on these
        threads.
        """
        from pyspark import inheritable_thread_target
        from pyspark.sql.utils import is_remote

        def tagged(*arguments: Any) -> Any:
            if self.is_connect:
                self._session.addTag(self._tag)
            else:
                context = self._session.sparkContext
                context.setJobGroup(self._tag, "deltactl", interruptOnCancel=True)
            return function(*arguments)

        if is_remote() != self.is_connect:  # settings would be of the other kind
            return tagged
        return cast("Callable[..., Any]", inheritable_thread_target(self._session)(tagged))

    def run(self, runner: Callable[[Batches], Batches], job: Job) -> list[tuple[Any, ...]]:
        """Run a job to its end, and return the rows of ``RESULT_SCHEMA``.

        Each bundle is a row. There are no more rows than slots, so Spark gives each row its own
        partition without a shuffle.
        """
        table = pa.table(
            {
                "id": pa.array(range(len(job)), pa.int64()),
                "task": pa.array([encode_bundle(bundle) for bundle in job], pa.binary()),
            }
        )
        frame = self._session.createDataFrame(table)
        return [tuple(row) for row in frame.mapInArrow(runner, self._schema).collect()]

    def shuffle(
        self,
        reader: Callable[[Batches], Batches],
        writer: Callable[[Batches], Batches],
        sources: Sequence[bytes],
        destinations: int,
    ) -> list[tuple[Any, ...]]:
        """Read sources, shuffle their rows by destination, and write them; return the results.

        After the shuffle, the rows of a destination are together, and the reports of the sources
        too.
        """
        table = pa.table([pa.array(sources, pa.binary())], schema=SOURCE_SCHEMA)
        frame = self._session.createDataFrame(table).repartition(len(sources))
        pieces = frame.mapInArrow(reader, _spark_schema(PIECE_SCHEMA))
        placed = pieces.repartition(destinations + 1, "destination")
        ordered = placed.sortWithinPartitions("destination")
        return [tuple(row) for row in ordered.mapInArrow(writer, self._schema).collect()]

    def cancel(self) -> None:
        """Cancel the running jobs; call this again until all threads have ended.

        A job that starts during the first call is stopped by the next call.
        """
        with suppress(Exception):  # the session has ended, so nothing runs
            if self.is_connect:
                self._session.interruptTag(self._tag)
            else:
                self._session.sparkContext.cancelJobGroup(self._tag)

    def is_alive(self) -> bool:
        """Return whether the session can still run jobs."""
        try:
            if self.is_connect:
                return not cast("Any", self._session).is_stopped
            stopped = self._session.sparkContext._jsc.sc().isStopped()
            return not stopped
        except Exception:
            return False


def _spark_schema(schema: pa.Schema) -> Any:
    """Return the schema as objects, because PySpark needs a classic session to parse a string."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
