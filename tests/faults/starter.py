"""Processes of deltactl without the time that imports take: forked from one that has done them.

``python -m tests.faults.starter`` takes orders from stdin and answers each with a line of JSON. It
starts no thread, so that what is forked from it is as good as a process of its own.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Running:
    """A process of deltactl; what it says goes to ``said``."""

    starter: Starter
    pid: int
    descriptor: int
    said: Path

    def is_over(self, wait_ms: float = 0) -> bool:
        """Whether it has ended, after waiting so long for it at most."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(wait_ms))

    def wait(self) -> int:
        """Wait for its end; give its exit status, or the signal as a negative number."""
        os.close(self.descriptor)
        return int(self.starter.ask(wait=self.pid)["code"])


class Starter:
    """The other end of the process that starts the others."""

    def __init__(self, scratch: Path) -> None:
        self._scratch, self._count = scratch, 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **order: Any) -> dict[str, Any]:
        """Give the answer to an order."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def start(self, arguments: Sequence[str]) -> Running:
        """Start deltactl with these arguments."""
        self._count += 1
        said = self._scratch / f"said-{self._count}"
        said.touch()  # whoever is killed at once has said nothing
        pid = self.ask(run=list(arguments), said=str(said))["pid"]
        return Running(self, pid, os.pidfd_open(pid), said)

    def end(self) -> None:
        """Stop the process; those it started go on."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def opened_starter(scratch: Path) -> Iterator[Starter]:
    """A starter that ends with the context."""
    starter = Starter(scratch)
    try:
        yield starter
    finally:
        starter.end()


def _import_everything() -> None:
    import deltactl.operations.checkpoint.run
    import deltactl.operations.convert.run
    import deltactl.operations.manifest.run
    import deltactl.operations.optimize.commit_bins
    import deltactl.operations.vacuum.run
    import deltactl.parquet.writer
    import deltactl.table  # noqa: F401


def _run(arguments: Sequence[str], said: str) -> None:
    """Be deltactl, and never come back."""
    from deltactl.cli.app import run

    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 70
    try:
        code = run(arguments)
        sys.stdout.flush()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve() -> None:
    _import_everything()
    for line in sys.stdin:
        order = json.loads(line)
        if "run" in order:
            pid = os.fork()
            if pid == 0:
                _run(order["run"], order["said"])
            answer = {"pid": pid}
        else:
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
