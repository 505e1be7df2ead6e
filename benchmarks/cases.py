"""The cases: the table, what each side does with it, and the goal."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import sides
from benchmarks.measure import Command, Prepare

Answer = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Case:
    """A comparison; times and memory as multiples of the other side's.

    ``answer`` makes of what a side printed what both sides must agree on. ``writes``: each run
    gets a copy of the table of its own. ``commits``: what a run adds to the log goes after it.
    ``copies``: a run makes a folder beside the table, of the same name and ``.copy``.
    """

    name: str
    table: str
    ours: Callable[[str], Command]
    theirs: Callable[[str], Command]
    what: str
    time_goal: float | None = None
    memory_goal: float | None = None
    our_answer: Answer = str.strip
    their_answer: Answer = str.strip
    writes: bool = False
    commits: bool = False
    copies: bool = False

    def prepare(self, table: Path, command: Callable[[str], Command], ends: ExitStack) -> Prepare:
        """Give what each run of a side starts with; ``ends`` removes copies.

        After the last run, because ext4 does not reuse a file's place at once: it looks for
        another, past all that were deleted lately, and each new folder takes milliseconds.
        """

        @contextmanager
        def prepared() -> Iterator[Command]:
            if self.commits:
                with kept_log(table / "_delta_log"):
                    yield command(str(table))
                return
            if self.copies:
                yield command(str(table))
                made = table.with_name(f"{table.name}.run-{uuid.uuid4().hex}")
                table.with_name(f"{table.name}.copy").rename(made)
                ends.callback(shutil.rmtree, made, ignore_errors=True)
                return
            if not self.writes:
                yield command(str(table))
                return
            copy = table.with_name(f"{table.name}.run-{uuid.uuid4().hex}")
            ends.callback(shutil.rmtree, copy, ignore_errors=True)
            copy_table(table, copy)
            yield command(str(copy))

        return prepared


@contextmanager
def kept_log(log: Path) -> Iterator[None]:
    """Remove what is new in the log after a run."""
    before = set(log.iterdir())
    yield
    for file in set(log.iterdir()) - before:
        file.unlink()


def copy_table(table: Path, copy: Path) -> None:
    """Copy the log, if there is one, and link the other files, which neither side changes."""
    copy.mkdir()
    if (table / "_delta_log").exists():
        shutil.copytree(table / "_delta_log", copy / "_delta_log")
    for file in table.iterdir():
        if file.is_file():
            os.link(file, copy / file.name)


def _load(table: str) -> Command:
    return sides.python(sides.THEIRS_LOAD, table)


def _our_versions(output: str) -> object:
    return [row["version"] for row in json.loads(output)["result"]]


def _their_versions(output: str) -> object:
    return [row["version"] for row in json.loads(output)]


def _history(name: str, table: str, what: str, goal: float | None, limit: int | None) -> Case:
    ours = ["--all"] if limit is None else ["--limit", str(limit)]
    theirs = [] if limit is None else [str(limit)]
    return Case(
        name=name,
        table=table,
        ours=lambda path: sides.deltactl("describe-history", path, *ours, "-o", "json"),
        theirs=lambda path: sides.python(sides.THEIRS_HISTORY, path, *theirs),
        what=what,
        time_goal=goal,
        our_answer=_our_versions,
        their_answer=_their_versions,
    )


def _optimize(name: str, codec: str, level: str | None, target_mb: int = 100) -> Case:
    ours = f"{codec}:{level}" if level else codec
    theirs = [f"{target_mb}000000", codec.upper(), *([level] if level else [])]
    return Case(
        name=name,
        table="data",
        ours=lambda path: sides.deltactl(
            *("optimize", path, "--target-size", f"{target_mb}MB", "--codec", ours, "-o", "json")
        ),
        theirs=lambda path: sides.python(sides.THEIRS_OPTIMIZE, path, *theirs),
        what=f"1,000 files of 1 MB and 20 columns to files of {target_mb} MB, {ours}",
        time_goal=0.85,
        memory_goal=1.5,
        our_answer=_our_removed,
        their_answer=_their_removed,
        writes=True,
    )


def _zorder(columns: str) -> Case:
    return Case(
        name="zorder",
        table="data",
        ours=lambda path: sides.deltactl(
            *("optimize", path, "--zorder-by", columns, "--target-size", "100MB"),
            *("--codec", "snappy", "-o", "json"),
        ),
        theirs=lambda path: sides.python(sides.THEIRS_ZORDER, path, "100000000", "SNAPPY", columns),
        what=f"1,000 files of 1 MB and 20 columns, Z-ordered by {columns}",
        time_goal=0.6,
        memory_goal=0.6,
        our_answer=_our_removed,
        their_answer=_their_removed,
        writes=True,
    )


def optimize(table: str) -> Command:
    """Our command, to files of 256 MiB, with the codec of the inputs."""
    return sides.deltactl(
        *("optimize", table, "--target-size", "256MiB", "--codec", "snappy", "-o", "json")
    )


def compact(table: str) -> Command:
    """That of delta-rs, with the same codec."""
    return sides.python(sides.THEIRS_OPTIMIZE, table, str(256 << 20), "SNAPPY")


def _our_removed(output: str) -> object:
    return json.loads(output)["result"]["files_removed"]


def _their_removed(output: str) -> object:
    return json.loads(output)["numFilesRemoved"]


def _checkpoint(
    name: str, table: str, what: str, time_goal: float | None, memory_goal: float | None
) -> Case:
    return Case(
        name=name,
        table=table,
        ours=lambda path: sides.deltactl("checkpoint", path, "-o", "json"),
        theirs=lambda path: sides.python(sides.THEIRS_CHECKPOINT, path),
        what=f"{what}: written, and by us read back",
        time_goal=time_goal,
        memory_goal=memory_goal,
        our_answer=lambda output: json.loads(output)["version_after"],
        their_answer=int,
        writes=True,
    )


def _vacuum(name: str, table: str, what: str, time_goal: float, memory_goal: float | None) -> Case:
    return Case(
        name=name,
        table=table,
        ours=lambda path: sides.deltactl(
            *("vacuum", path, "--mode", "full", "--include-unknown", "--dry-run", "-o", "json")
        ),
        theirs=lambda path: sides.python(sides.THEIRS_VACUUM, path),
        what=f"vacuum, full dry run: {what}",
        time_goal=time_goal,
        memory_goal=memory_goal,
        our_answer=lambda output: json.loads(output)["result"]["files"],
        their_answer=int,
    )


def _manifest(name: str, table: str, what: str, goal: float) -> Case:
    return Case(
        name=name,
        table=table,
        ours=lambda path: sides.deltactl("generate-manifest", path, "-q"),
        theirs=lambda path: sides.python(sides.THEIRS_MANIFEST, path),
        what=what,
        time_goal=goal,
        our_answer=lambda output: "",
        their_answer=lambda output: "",
        writes=True,
    )


CASES = (
    Case(
        name="load-checkpoint",
        table="checkpoint",
        ours=lambda path: sides.python(sides.OURS_LOAD, path),
        theirs=_load,
        what="1,000,000 files from a checkpoint: version, number and bytes",
        time_goal=0.4,
        memory_goal=0.7,
    ),
    Case(
        name="load-json",
        table="json",
        ours=lambda path: sides.python(sides.OURS_LOAD, path),
        theirs=_load,
        what="1,000 JSON commits of 1,000 adds, no checkpoint",
        time_goal=0.45,
    ),
    _history("history-all", "history", "20,000 commits, no checkpoint: all", 0.15, None),
    _history("history-20", "history", "20,000 commits, no checkpoint: newest 20", 0.06, 20),
    _history(
        "history-all-cp", "history-checkpoint", "with a checkpoint of the last: all", None, None
    ),
    _history(
        "history-20-cp", "history-checkpoint", "with a checkpoint of the last: newest 20", None, 20
    ),
    _checkpoint("checkpoint", "grown", "1,000,000 files and a tail of ten commits", 0.5, 0.4),
    _checkpoint("checkpoint-4m", "grown-4", "the same with 4,000,000 files", None, None),
    _optimize("optimize", "zstd", "3"),
    _optimize("optimize-snappy", "snappy", None),
    _optimize("optimize-one", "zstd", "3", target_mb=2000),
    _zorder("user_id,store"),
    Case(
        name="copy",
        table="large",
        ours=optimize,
        theirs=compact,
        what="40 files of 30 MB, whose row groups are copied",
        time_goal=0.35,
        memory_goal=1.0,
        our_answer=_our_removed,
        their_answer=_their_removed,
        writes=True,
    ),
    _vacuum(
        *("vacuum", "vacuum", "200,000 files and 20,000 orphans in 1,000 partitions", 0.75, 1.4)
    ),
    _vacuum(
        "vacuum-json",
        "vacuum-json",
        "190,000 files named by JSON commits only and 9,500 orphans in 1,000 partitions",
        0.75,
        1.4,
    ),
    Case(
        name="restore",
        table="restore",
        ours=lambda path: sides.deltactl("restore", path, "--to-version", "10", "-o", "json"),
        theirs=lambda path: sides.python(sides.THEIRS_RESTORE, path),
        what="restore of 1,000,000 files, of which 100,000 change; all data files exist",
        time_goal=0.5,
        our_answer=lambda output: json.loads(output)["result"]["files_restored"],
        their_answer=lambda output: json.loads(output)["numRestoredFile"],
        commits=True,
    ),
    Case(
        name="clone",
        table="clone",
        ours=lambda path: sides.deltactl("clone", path, f"{path}.copy", "--deep", "-q"),
        theirs=lambda path: [shutil.which("cp") or "cp", "-r", path, f"{path}.copy"],
        what="deep clone of 2,000 files, flushed; the other side is `cp -r`, which flushes none",
        time_goal=1.2,
        our_answer=lambda output: "",
        their_answer=lambda output: "",
        copies=True,
    ),
    Case(
        name="convert",
        table="directory",
        ours=lambda path: sides.deltactl("convert", path, "-q"),
        theirs=lambda path: sides.python(sides.THEIRS_CONVERT, path),
        what="2,000 Parquet files of 20 columns become a table",
        time_goal=1.7,
        our_answer=lambda output: "",
        their_answer=lambda output: "",
        writes=True,
    ),
    _manifest(
        "manifest-1000", "partitions-1000", "manifests of 190,000 files in 1,000 partitions", 0.9
    ),
    _manifest(
        "manifest-10000",
        "partitions-10000",
        "manifests of 1,000,000 files in 10,000 partitions",
        0.9,
    ),
    Case(
        name="detail",
        table="small",
        ours=lambda path: sides.deltactl("describe-detail", path, "-o", "json"),
        theirs=lambda path: sides.python(sides.THEIRS_OPEN, path),
        what="describe-detail of a table of one file; the other side opens it",
        our_answer=lambda output: json.loads(output)["result"]["numFiles"],
        their_answer=int,
    ),
)
