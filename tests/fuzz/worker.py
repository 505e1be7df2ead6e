"""One process that fuzzes one target until its executions are done; started by ``__main__``.

It may die of an input: what it did, and with which input it died, stands in its tally.
"""

import argparse
import faulthandler
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

STRUCTURED = 0.4  # part of the inputs that are bent by their structure, where they have one


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    faulthandler.enable()
    if find_spec("atheris") is None:
        _fuzz_blindly(arguments)
    else:
        _fuzz_guided(arguments)


class _Session:
    """Executes inputs of one target; keeps those that are finds."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        # Late: what is to be watched must be loaded by the one who watches.
        harness = import_module("tests.fuzz.harness")
        self.target = import_module("tests.fuzz.targets").TARGETS[arguments.target]
        self._execute = harness.execute
        self._finds = arguments.folder / "finds" / arguments.target
        self._finds.mkdir(parents=True, exist_ok=True)
        self._tally = harness.Tally.open(arguments.folder / f"{arguments.target}.tally")
        self._left = arguments.runs - self._tally.executions
        self._until = time.monotonic() + arguments.seconds

    def seeds(self) -> list[bytes]:
        """The first inputs; all are executed once, so that what loads late is loaded."""
        found: list[bytes] = self.target.seeds()
        for data in found:
            self._execute(self.target, data)
            import_module("tests.fuzz.bend").trust(data)
        return found

    def take(self, data: bytes) -> None:
        """Execute one input; ends the process when enough were, or the time is up."""
        if self._left <= 0 or time.monotonic() > self._until:
            sys.stdout.flush()
            os._exit(0)
        self._left -= 1
        self._tally.begin(data)
        run = self._execute(self.target, data)
        self._tally.end(run)
        if run.find is not None:
            self._keep(run.find.name, data, run.find.detail)

    def _keep(self, name: str, data: bytes, detail: str) -> None:
        place = self._finds / name
        if not place.exists() or place.stat().st_size > len(data):
            place.write_bytes(data)
            place.with_name(f"{name}.txt").write_text(detail + "\n", "utf-8", "replace")


def _fuzz_guided(arguments: argparse.Namespace) -> None:
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["deltactl", "tomllib"]):
        session = _Session(arguments)
    bend: Callable[..., bytes | None] = import_module("tests.fuzz.bend").bend
    target = session.target
    corpus = arguments.folder / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(session.seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    words = arguments.folder / f"{target.name}.dict"
    words.write_text("".join(f'"{_escape(word)}"\n' for word in target.words or ("0",)))
    random = Random(arguments.seed)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if random.random() < STRUCTURED:
            bent = bend(target.form, data, random)
            if bent is not None and len(bent) <= max_size:
                return bent
        mutated: bytes = atheris.Mutate(data, max_size)
        return mutated

    options = [
        "-runs=1000000000",  # the session ends it
        f"-max_len={target.max_length}",
        f"-seed={arguments.seed}",
        f"-dict={words}",
        "-print_final_stats=1",
        "-rss_limit_mb=0",
        "-timeout=3600",  # hangs are the parent's to see
        *(f"-handle_{signal}=0" for signal in ("segv", "abrt", "bus", "ill", "fpe")),
    ]
    structured = {"custom_mutator": mutate} if target.form in ("json", "parquet") else {}
    atheris.Setup([sys.argv[0], *options, str(corpus)], session.take, **structured)
    faulthandler.enable()
    atheris.Fuzz()


def _escape(word: str) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in word.encode()
    )


def _fuzz_blindly(arguments: argparse.Namespace) -> None:
    """Without atheris: seeds bent by hypothesis, without regard to what they reach."""
    session = _Session(arguments)
    inputs = import_module("tests.fuzz.strategies").inputs_of(session.target)
    hypothesis: Any = import_module("hypothesis")
    settings = hypothesis.settings(
        max_examples=10_000,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    session.seeds()
    for number in range(arguments.seed, sys.maxsize):
        hypothesis.seed(number)(settings(hypothesis.given(inputs)(session.take)))()


if __name__ == "__main__":
    main()
