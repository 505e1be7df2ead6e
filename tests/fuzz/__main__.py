"""``make fuzz``: all targets for a number of executions, and a table of what came of it.

python -m tests.fuzz                            10,000,000 executions, shared out
python -m tests.fuzz --only predicate --runs 50000
python -m tests.fuzz --replay FILE TARGET       one input, with its time and memory
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.harness import Find, Run, Tally, execute, peak_bytes
from tests.fuzz.targets import TARGETS

TOTAL = 10_000_000
HANGS_AFTER = 20.0
_MOST_DEATHS = 200
_FIGURES = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a target."""

    name: str
    executions: int
    coverage: str
    rate: float
    finds: int
    slowest_ms: float
    grown_mib: float


def main() -> int:
    arguments = _parse(sys.argv[1:])
    if arguments.replay:
        return replay(arguments.replay, arguments.target)
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    how = "coverage-guided by atheris" if find_spec("atheris") else "without atheris: unguided"
    print(f"{how}, {arguments.jobs} at a time; finds go to {folder}/finds", flush=True)
    names = arguments.only or list(TARGETS)
    whole = sum(target.share for target in TARGETS.values())
    runs = {
        name: arguments.runs
        if arguments.only
        else max(1, arguments.runs * TARGETS[name].share // whole)
        for name in names
    }
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda name: _fuzz(name, runs[name], arguments), names))
    results = [_result(name, folder) for name in names]
    print("\n".join(_table(results)))
    return 1 if any(result.finds for result in results) else 0


def _parse(texts: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", nargs="?", choices=TARGETS, help="with --replay")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="+", choices=TARGETS, metavar="TARGET")
    parser.add_argument("--runs", type=int, default=TOTAL, help="in all; with --only: of each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    arguments = parser.parse_args(texts)
    if bool(arguments.replay) != bool(arguments.target):
        parser.error("--replay FILE TARGET")
    return arguments


def replay(path: Path, name: str) -> int:
    """Execute one input and tell what comes of it."""
    data = path.read_bytes()
    run = execute(TARGETS[name], data)
    print(
        f"{name}: {len(data)} bytes, {1000 * run.seconds:.1f} ms, the peak of memory grew by "
        f"{run.grown_bytes >> 10} KiB to {peak_bytes() >> 20} MiB"
    )
    print(run.find.detail if run.find else "as it should be")
    return 1 if run.find else 0


def _fuzz(name: str, runs: int, arguments: argparse.Namespace) -> None:
    """Run workers of one target until its executions are done, whatever they die of."""
    folder: Path = arguments.folder
    tally = Tally.open(folder / f"{name}.tally")
    tally.pause()  # an earlier run may have been stopped in the middle of an execution
    command = [sys.executable, "-m", "tests.fuzz.worker", name, str(folder), "--runs", str(runs)]
    until = time.monotonic() + arguments.seconds
    for death in range(_MOST_DEATHS):
        tally.load()
        left = until - time.monotonic()
        if tally.executions >= runs or left <= 0:
            break
        seed = arguments.seed + death + tally.executions
        with (folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--seed", str(seed), "--seconds", str(left)], stdout=log, stderr=log
            )
        find = watch(process, tally)
        if find is not None and tally.load():  # else it did not die of an input
            keep_death(folder, name, find, tally)
    result = _result(name, folder)
    print(f"{name}: {result.executions:,} executions, {result.finds} finds", flush=True)


def watch(process: subprocess.Popen[bytes], tally: Tally) -> Find | None:
    """Wait for a worker; one that hangs is ended."""
    while process.poll() is None:
        tally.load()
        if tally.since and time.time() - tally.since > HANGS_AFTER:
            process.kill()
            process.wait()
            return Find("hang", "hang", f"no end within {HANGS_AFTER:.0f} s")
        time.sleep(0.2)
    if process.returncode == 0:
        return None
    return Find("death", str(process.returncode), f"the process ended with {process.returncode}")


def keep_death(folder: Path, name: str, find: Find, tally: Tally) -> None:
    data = tally.load()
    place = folder / "finds" / name
    place.mkdir(parents=True, exist_ok=True)
    number = sum(1 for _ in place.glob(f"{find.kind}-*.txt"))
    (place / f"{find.kind}-{number}").write_bytes(data)
    log = folder / f"{name}.log"
    said = log.read_text("utf-8", "replace") if log.exists() else ""
    tail = "\n".join(said.splitlines()[-40:])
    (place / f"{find.kind}-{number}.txt").write_text(f"{find.detail}\n{tail}\n")
    tally.end(Run(0.0, 0, find))


def _result(name: str, folder: Path) -> Result:
    tally = Tally.open(folder / f"{name}.tally")
    log = folder / f"{name}.log"
    figures = _FIGURES.findall(log.read_text("utf-8", "replace")) if log.exists() else []
    edges = max((int(cov) for cov, _, _ in figures), default=0)
    features = max((int(ft) for _, ft, _ in figures), default=0)
    finds = sum(1 for _ in (folder / "finds" / name).glob("*.txt"))
    rate = tally.executions / tally.busy if tally.busy else 0.0
    return Result(
        name,
        tally.executions,
        f"{edges:,} / {features:,}" if edges else "-",
        rate,
        finds,
        1000 * tally.slowest,
        tally.grown / (1 << 20),
    )


def _table(results: Sequence[Result]) -> Iterator[str]:
    """Markdown."""
    yield "| input | executions | edges / features | per second | finds | slowest ms | memory MiB |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for r in results:
        yield (
            f"| {r.name} | {r.executions:,} | {r.coverage} | {r.rate:,.0f} | {r.finds} "
            f"| {r.slowest_ms:,.0f} | {r.grown_mib:,.1f} |"
        )
    total = sum(r.executions for r in results)
    yield f"| **all** | **{total:,}** | | | {sum(r.finds for r in results)} | | |"


if __name__ == "__main__":
    sys.exit(main())
