"""A command for several tables, which does what the last part of a table's name says."""

import os
import signal
import threading
import time

import deltactl
from deltactl.cli.options.common import TableArgument
from deltactl.cli.output.sections import Section
from deltactl.cli.session import Session
from deltactl.engine.local import LocalEngine

RUNNING: list[str] = []
MOST_AT_ONCE: list[int] = []
_LOCK = threading.Lock()


def command(session: Session, table: TableArgument) -> None:
    """Go round."""
    with _LOCK:
        RUNNING.append(table)
        MOST_AT_ONCE.append(len(RUNNING))
    try:
        _act(session, table.rpartition("/")[2])
    finally:
        with _LOCK:
            RUNNING.remove(table)


def _act(session: Session, word: str) -> None:
    verb, _, rest = word.partition("-")
    if verb == "raise":
        raise getattr(deltactl, rest)(f"{word} broke")
    if verb == "bug":
        raise ZeroDivisionError
    if verb == "warn":
        session.output.warn("odd")
    if verb == "sleep":
        time.sleep(0.05)
    if verb == "workers":
        with session.engine(max_concurrent=8, memory_bytes=1000) as chosen:
            engine = chosen.start()
            assert isinstance(engine, LocalEngine)
            word = f"{engine.workers} workers, {engine.memory_bytes} bytes"
    if verb == "wait":
        with session.cancellation() as cancellation:
            os.write(1, b"ready\n")
            if rest == "hit":  # the thread of this table gets the signal
                signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
            cancellation.token.wait(20)
            if rest == "deaf":
                time.sleep(20)
            cancellation.raise_if_cancelled(
                "interrupted; half is done", is_part_done=rest != "idle", hint="Rerun."
            )
    session.present(
        lambda: [Section(f"{word} is [good]")],
        is_work_needed=verb == "needed",
        version_before=1,
        version_after=2,
        result={"word": word},
    )
