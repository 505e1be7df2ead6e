"""Which process of a run is killed: deltactl's own, or one of the Spark that it started."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.starter import Running
from tests.support.spark_servers import standalone_cluster

_SECONDS_TO_START = 120
_ON_SPARK = ("--engine", "spark", "--spark-conf", "spark.executor.memory=512m")


@dataclass(frozen=True)
class Victim:
    """A kind of process; ``java_class`` tells a Java process by its command line.

    Where ``is_replaced``, the run ends well without it.
    """

    name: str
    arguments: tuple[str, ...] = ()
    java_class: str = ""
    is_replaced: bool = False

    def find(self, running: Running) -> psutil.Process | None:
        """Wait until it has come up; ``None`` where the run ended before."""
        if not self.java_class:
            return psutil.Process(running.pid)
        # Executors are children of the cluster's workers, and those of who opened the cluster.
        ancestor = psutil.Process(None if self.is_replaced else running.pid)
        deadline = time.monotonic() + _SECONDS_TO_START
        while not running.is_over(20) and time.monotonic() < deadline:
            for process in ancestor.children(recursive=True):
                if self._is_it(process):
                    return process
        return None

    def _is_it(self, process: psutil.Process) -> bool:
        try:
            return any(self.java_class in word for word in process.cmdline())
        except psutil.Error:
            return False


_EMBEDDED = (*_ON_SPARK, "--master", "local[2]")
ITSELF = Victim("deltactl")
PROGRAM = Victim("driver's program", _EMBEDDED)
JAVA = Victim("driver's Java", _EMBEDDED, "org.apache.spark.deploy.SparkSubmit")


@contextmanager
def victims_on_spark(scratch: Path) -> Iterator[list[Victim]]:
    """The driver's program, its Java process, and an executor of a cluster of two workers."""
    with standalone_cluster(scratch) as cluster:
        arguments = (*_ON_SPARK, "--master", cluster)
        executor = Victim("executor", arguments, "CoarseGrainedExecutorBackend", is_replaced=True)
        yield [PROGRAM, JAVA, executor]


def kill_unless_over(process: psutil.Process | None, running: Running) -> bool:
    """End it as the kernel does when memory is short; tells whether the run still went on."""
    if process is None or running.is_over():
        return False
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
