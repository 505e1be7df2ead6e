"""A process in which delta-rs works on tables: long-lived, since its start costs most of a round.

``python -m tests.faults.delta_rs NUMBER`` takes orders from stdin and answers each with a line of
JSON. deltactl is never imported here: what is read is what another implementation reads.
"""

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTITIONS = 3
_IDS_OF_A_WRITER = 1_000_000
_LARGEST_APPEND = 12
# Enough of a pause for others to get a word in on few cores.
_PAUSE_S = 0.15


class DeltaRs:
    """The other end of such a process."""

    def __init__(self, number: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def order(self, word: str, **facts: Any) -> None:
        """Say what to do; ``work`` goes on until ``stop``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": word, **facts}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for what it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process of delta-rs died"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def delta_rs(count: int) -> Iterator[list[DeltaRs]]:
    """So many processes, ended with the context."""
    started = [DeltaRs(number) for number in range(count)]
    try:
        yield started
    finally:
        for process in started:
            process.end()


class _Work:
    """Appends and deletes of one writer; each id is its own, and comes once."""

    def __init__(self, number: int) -> None:
        self._first = (number + 1) * _IDS_OF_A_WRITER
        self._next = self._first
        self._orders: list[Mapping[str, Any]] = []

    def run(self, root: str, seed: int, stop: threading.Event) -> dict[str, Any]:
        """Work until stopped; give what was acknowledged, and what was refused."""
        from deltalake.exceptions import DeltaError

        chance = random.Random(seed)
        added: list[int] = []
        deleted: list[int] = []
        refused: list[str] = []
        while not stop.is_set():
            if not (Path(root) / "_delta_log").is_dir() or not _is_table(root):
                stop.wait(0.01)  # not converted yet
                continue
            try:
                mine = sorted(set(added) - set(deleted))
                if mine and chance.random() < 0.4:
                    deleted += self._delete(root, chance.choice(mine), chance)
                else:
                    added += self._append(root, chance)
            except DeltaError as error:
                refused.append(str(error)[:300])
            stop.wait(_PAUSE_S)
        return {"added": added, "deleted": deleted, "refused": refused}

    def _append(self, root: str, chance: random.Random) -> list[int]:
        from deltalake import write_deltalake

        ids = list(range(self._next, self._next + chance.randint(1, _LARGEST_APPEND)))
        self._next = ids[-1] + 1
        write_deltalake(root, rows_of(ids), mode="append")
        return ids

    def _delete(self, root: str, last: int, chance: random.Random) -> list[int]:
        from deltalake import DeltaTable

        ids = [i for i in range(last - chance.randint(0, 3), last + 1) if i >= self._first]
        DeltaTable(root).delete(f"id >= {ids[0]} AND id <= {ids[-1]}")
        return ids


def _is_table(root: str) -> bool:
    from deltalake import DeltaTable

    return DeltaTable.is_deltatable(root)


def rows_of(ids: list[int]) -> Any:
    """The rows with these ids: every other value follows from the id."""
    import pyarrow as pa

    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([f"v{i}" for i in ids], pa.string()),
            "p": pa.array([i % PARTITIONS for i in ids], pa.int32()),
        }
    )


def _read(root: str) -> dict[str, Any]:
    """Ids in a table, sorted; and how many rows are not what follows from their id."""
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(root))
    rows = pa.table(query.execute("SELECT id, v, p FROM t ORDER BY id").read_all()).to_pylist()
    wrong = sum(r["v"] != f"v{r['id']}" or r["p"] != r["id"] % PARTITIONS for r in rows)
    return {"ids": [row["id"] for row in rows], "wrong": wrong}


def _serve(number: int) -> None:
    work, stop = _Work(number), threading.Event()
    working: threading.Thread | None = None
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "work":
                stop.clear()
                working = threading.Thread(
                    target=lambda order=order: _say(work.run(order["root"], order["seed"], stop)),
                    daemon=True,  # who gave the orders may be gone
                )
                working.start()
            case "stop":
                stop.set()
                if working is not None:
                    working.join()
            case "read":
                _say(_read(order["root"]))


def _say(answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    try:
        _serve(int(sys.argv[1]))
    except Exception as error:
        _say({"error": repr(error)})
        os._exit(1)
