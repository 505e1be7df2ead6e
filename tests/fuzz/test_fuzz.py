"""A short slice of ``make fuzz`` without chance, and every find there ever was, once more."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from deltactl.errors import UsageError
from tests.fuzz import __main__ as runner
from tests.fuzz.harness import Tally, execute
from tests.fuzz.strategies import inputs_of
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

FINDS = Path(__file__).parent / "finds"
FOUND = sorted(str(path.relative_to(FINDS)) for path in FINDS.glob("*/*"))
EXAMPLES = 30


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_fixed(name: str) -> None:
    run = execute(TARGETS[name.partition("/")[0]], (FINDS / name).read_bytes())
    assert run.find is None, run.find


@pytest.mark.parametrize("name", TARGETS)
def test_bent_inputs_meet_typed_errors(name: str) -> None:
    target = TARGETS[name]

    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs_of(target))
    def holds(data: bytes) -> None:
        find = execute(target, data).find
        assert find is None, find

    holds()


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_get_past_the_parser(name: str) -> None:
    """An input that is refused at once explores nothing."""
    target = TARGETS[name]
    passed = 0
    for data in target.seeds():
        assert len(data) <= target.max_length
        try:
            target.run(data)
        except Exception:  # noqa: BLE001 - some are meant to be refused
            continue
        passed += 1
    assert passed


# More than the allocator ever takes from what it held before (32 MiB), less than Arrow may hold.
LARGE = 48 << 20


def _bad(data: bytes) -> None:
    match data:
        case b"typed":
            raise UsageError("refused")
        case b"untyped":
            raise KeyError("x")
        case b"large":
            bytearray(LARGE)[:: 1 << 12] = bytes(LARGE >> 12)


def test_the_harness_finds() -> None:
    target = Target("bad", _bad, list, 1, "text")
    assert execute(target, b"").find is None
    assert execute(target, b"typed").find is None
    found = execute(target, b"untyped").find
    assert found is not None and found.kind == "error" and "KeyError" in found.key
    # Memory that earlier tests of this process freed may go back to the system in this moment, and
    # hide what is new.
    pa.system_memory_pool().release_unused()
    found = next(filter(None, (execute(target, b"large").find for _ in range(5))), None)
    assert found is not None and found.kind == "memory"
    assert execute(replace(target, by_arrow=True), b"large").find is None


def test_memory_is_measured_whoever_began_the_process() -> None:
    """A peak of the parent's is not taken for one that was there before."""
    code = (
        "from tests.fuzz.harness import forget_peak, peak_bytes\n"
        "forget_peak(); before = peak_bytes(); held = b'x' * (48 << 20)\n"
        "print(peak_bytes() - before >> 20)"
    )
    held = b"x" * (256 << 20)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(held) and 47 <= int(ran.stdout) <= 52


def test_a_worker_that_dies_or_hangs_is_a_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the input that it was at work on."""
    monkeypatch.setattr(runner, "HANGS_AFTER", 3.0)
    for code, kind in (("import os; os.abort()", "death"), ("import time; time.sleep(9)", "hang")):
        tally = Tally.open(tmp_path / "log-name.tally")
        tally.begin(b"the input")
        with subprocess.Popen([sys.executable, "-c", code]) as process:
            find = runner.watch(process, tally)
        assert find is not None and find.kind == kind
        runner.keep_death(tmp_path, "log-name", find, tally)
        assert (tmp_path / "finds" / "log-name" / f"{kind}-0").read_bytes() == b"the input"
    assert Tally.open(tmp_path / "log-name.tally").executions == 2
