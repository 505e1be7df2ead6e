"""`python -m benchmarks.s3`: deltactl beside delta-rs on a table in an S3 server on this machine.

Both load a table and get its files; the command also plans an optimize. Requests are counted in
runs of their own, through a proxy. With `--convert`, both convert a directory of 2,000 Parquet
files on a server that answers each request 20 ms late; with `--optimize`, both optimize 40 files of
30 MB there. With `--start`, several commands run on a small table. With `--clone`, a deep clone of
500 files of 0.9 MB beside `aws s3 sync` of them: to the server, inside it, and back.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import deltactl as installed
from benchmarks.cases import Case, compact, optimize
from benchmarks.late_proxy import late_proxy
from benchmarks.measure import Command, Prepare, run_in_turn, run_process
from benchmarks.report import Result, render
from benchmarks.s3_start import measure_start, write_small
from benchmarks.sides import OURS_LOAD_COLUMNS, THEIRS_CONVERT, THEIRS_LOAD, deltactl, python
from benchmarks.tables import default_cache, ensure_table
from deltactl.storage.open import open_store
from tests.support.fault_proxy import fault_proxy
from tests.support.object_servers import SERVERS, delta_rs_options

# The same in a process that did it before: without imports and the first connection.
WARM = """
import statistics, sys, time

def work():
    {work}

work()
seconds = []
for _ in range(5):
    before = time.perf_counter()
    work()
    seconds.append(time.perf_counter() - before)
print(statistics.median(seconds))
"""
OURS_WORK = "from deltactl import Table; Table(sys.argv[1]).optimize(dry_run=True)"
OURS_LOAD_WORK = "from deltactl import Table; Table(sys.argv[1]).snapshot().num_files"
THEIRS_WORK = "from deltalake import DeltaTable; DeltaTable(sys.argv[1]).get_add_actions()"

_ADDRESS = "s3://lake/benchmark"
_LATE_MS = 20
_CLONE_SCALE = 0.25


def main(arguments: list[str]) -> int:
    """Run both cases and print their table, then the requests of each side."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.s3", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="counted runs of a side [5]")
    parser.add_argument("--server", default="minio", choices=["minio", "moto"])
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--convert", action="store_true", help="convert a directory instead")
    parser.add_argument("--optimize", action="store_true", help="optimize large files instead")
    parser.add_argument("--clone", action="store_true", help="clone a table instead")
    parser.add_argument("--start", action="store_true", help="run on a small table instead")
    parser.add_argument("--files", type=int, default=100_000, help="of the table [100000]")
    options = parser.parse_args(arguments)
    if options.convert:
        print(
            render([_measure_convert(options.server, options.runs, options.cache)], markdown=True)
        )
        return 0
    if options.optimize:
        print(
            render([_measure_optimize(options.server, options.runs, options.cache)], markdown=True)
        )
        return 0
    if options.clone:
        print(render(_measure_clones(options.server, options.runs, options.cache), markdown=True))
        return 0
    # As pip does for the other side: without it, 0.4 s of each run is compiling.
    compileall.compile_dir(Path(installed.__file__).parent, quiet=2)
    if options.start:
        _measure_start(options.server, options.runs)
        return 0
    table = ensure_table("checkpoint", options.files / 1_000_000, options.cache)
    with tempfile.TemporaryDirectory() as folder, SERVERS[options.server](Path(folder)) as server:
        _upload(table, server.options)
        os.environ |= delta_rs_options(server.endpoint)
        print(render([_measure(*side, options.runs) for side in _OURS.items()], markdown=True))
        for side, work in (
            ("ours, plan", OURS_WORK),
            ("ours, snapshot", OURS_LOAD_WORK),
            ("theirs", THEIRS_WORK),
        ):
            ran = run_process(python(WARM.format(work=work), _ADDRESS))
            print(f"warm, {side}: {float(ran.output):.2f} s")
        for side, command in (("ours", _plan), ("theirs", _load_theirs)):
            with fault_proxy(server.endpoint) as proxy:
                os.environ["AWS_ENDPOINT_URL"] = proxy.endpoint
                run_process(command(_ADDRESS))
                print(side, dict(Counter(request.method for request in proxy.requests)))
    return 0


def _measure_start(kind: str, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder, SERVERS[kind](Path(folder)) as server:
        os.environ |= delta_rs_options(server.endpoint)
        write_small(_ADDRESS, delta_rs_options(server.endpoint))
        for line in measure_start(_ADDRESS, runs):
            print(line, flush=True)


def _measure_convert(kind: str, runs: int, cache: Path) -> Result:
    directory = ensure_table("directory", 1, cache)
    with tempfile.TemporaryDirectory() as folder, SERVERS[kind](Path(folder)) as server:
        _upload(directory, server.options)
        with late_proxy(server.endpoint, _LATE_MS) as endpoint:
            os.environ |= delta_rs_options(endpoint)
            case = Case(
                name="s3-convert",
                table="directory",
                ours=lambda address: deltactl("convert", address, "-q"),
                theirs=lambda address: python(THEIRS_CONVERT, address),
                what=f"2,000 Parquet files on an S3 server that answers {_LATE_MS} ms late",
                time_goal=0.2,
            )

            def prepare(command: Callable[[str], Command]) -> Prepare:
                @contextmanager
                def prepared() -> Iterator[Command]:
                    store = open_store(_ADDRESS, server.options)
                    names = [info.name for info in store.list_from("_delta_log")]
                    assert not store.delete_many(names)
                    yield command(_ADDRESS)
                    assert next(store.list_from("_delta_log"), None) is not None

                return prepared

            return Result(case, run_in_turn(prepare(case.ours), prepare(case.theirs), runs))


def _measure_optimize(kind: str, runs: int, cache: Path) -> Result:
    table = ensure_table("large", 1, cache)
    with tempfile.TemporaryDirectory() as folder, SERVERS[kind](Path(folder)) as server:
        _upload(table, server.options)
        store = open_store(_ADDRESS, server.options)
        inputs = {name for batch in store.walk() for name in batch}
        with late_proxy(server.endpoint, _LATE_MS) as endpoint:
            os.environ |= delta_rs_options(endpoint)
            case = Case(
                name="s3-copy",
                table="large",
                ours=optimize,
                theirs=compact,
                what=f"40 files of 30 MB on an S3 server that answers {_LATE_MS} ms late",
                time_goal=0.3,
                memory_goal=1.0,
            )

            def prepare(command: Callable[[str], Command]) -> Prepare:
                @contextmanager
                def prepared() -> Iterator[Command]:
                    made = [n for batch in store.walk() for n in batch if n not in inputs]
                    assert not store.delete_many(made)
                    yield command(_ADDRESS)
                    assert len(list(store.list_from("_delta_log"))) > 1

                return prepared

            return Result(case, run_in_turn(prepare(case.ours), prepare(case.theirs), runs))


def _measure_clones(kind: str, runs: int, cache: Path) -> list[Result]:
    """To the server, inside it, and back, each beside the same by the AWS command line.

    The clone also reads the log, compares the sizes of the copies, and commits.
    """
    aws = shutil.which("aws")
    if aws is None:
        sys.exit("the other side is missing: install the AWS command line, `pip install awscli`")
    table = ensure_table("clone", _CLONE_SCALE, cache)
    with tempfile.TemporaryDirectory() as folder, SERVERS[kind](Path(folder)) as server:
        _upload(table, server.options)
        os.environ |= delta_rs_options(server.endpoint)
        local = str(Path(folder) / "back")
        ways = {
            "up": (str(table), f"{_ADDRESS}-copy"),
            "inside": (_ADDRESS, f"{_ADDRESS}-copy"),
            "down": (_ADDRESS, local),
        }
        results = []
        for way, (source, target) in ways.items():
            case = Case(
                name=f"s3-clone-{way}",
                table="clone",
                ours=partial(_clone, source),
                theirs=partial(_sync, aws, source),
                what="500 files of 0.9 MB; the other side is `aws s3 sync`, which flushes nothing",
                time_goal=1.5,
            )

            def prepare(command: Callable[[str], Command], target: str = target) -> Prepare:
                @contextmanager
                def prepared() -> Iterator[Command]:
                    store = open_store(target, {} if target == local else server.options)
                    made = [name for batch in store.walk() for name in batch]
                    assert not store.delete_many(made)
                    yield command(target)
                    assert sum(len(batch) for batch in store.walk()) >= _CLONE_SCALE * 2_000

                return prepared

            pair = run_in_turn(prepare(case.ours), prepare(case.theirs), runs)
            results.append(Result(case, pair))
        return results


def _clone(source: str, target: str) -> Command:
    return deltactl("clone", source, target, "--deep", "-q")


def _sync(aws: str, source: str, target: str) -> Command:
    return [aws, "s3", "sync", "--only-show-errors", source, target]


def _upload(table: Path, options: Mapping[str, str]) -> None:
    store = open_store(_ADDRESS, options)
    for file in sorted(table.rglob("*")):
        if file.is_file():
            store.put(file.relative_to(table).as_posix(), file.read_bytes())


def _measure(name: str, ours: Callable[[str], Command], runs: int) -> Result:
    case = Case(
        name=f"s3-{name}",
        table="checkpoint",
        ours=ours,
        theirs=_load_theirs,
        what=f"{name} of a table on an S3 server",
        time_goal=0.6,
    )
    return Result(case, run_in_turn(_prepare(ours), _prepare(_load_theirs), runs))


def _load(address: str) -> Command:
    return python(OURS_LOAD_COLUMNS, address)


def _plan(address: str) -> Command:
    return deltactl("optimize", address, "--dry-run", "-q")


def _load_theirs(address: str) -> Command:
    return python(THEIRS_LOAD, address)


_OURS: Final = {"load": _load, "plan": _plan}


def _prepare(command: Callable[[str], Command]) -> Prepare:
    @contextmanager
    def prepared() -> Iterator[Command]:
        yield command(_ADDRESS)

    return prepared


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
