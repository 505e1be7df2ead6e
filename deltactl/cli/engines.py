"""One Spark session for all tables of a run."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltactl.engine.spark.session import SparkSettings


class SharedSpark:
    """The Spark session of a run: started when it is first asked for, and once."""

    def __init__(self, stack: ExitStack, quiet: AbstractContextManager[object]) -> None:
        """End the session with ``stack``; hold ``quiet`` while it starts.

        Starting redirects stdout and stderr of the whole process for a while.
        """
        self._stack, self._quiet = stack, quiet
        self._lock = threading.Lock()
        self._session: Any = None  # only the engine's own modules may know Spark's types

    def open(self, settings: SparkSettings, environ: Mapping[str, str]) -> Any:
        """Give the session.

        Raises:
            EngineUnavailableError: it cannot be started.
        """
        from deltactl.engine.spark.session import spark_session

        with self._lock:
            if self._session is None:
                with self._quiet:
                    starting = spark_session(settings, environ)
                    self._session = self._stack.enter_context(starting)
            return self._session


@contextmanager
def shared_spark(quiet: AbstractContextManager[object] | None = None) -> Iterator[SharedSpark]:
    """Give what starts Spark once; a session that was started ends with the context."""
    with ExitStack() as stack, warnings.catch_warnings():
        yield SharedSpark(stack, quiet or nullcontext())
