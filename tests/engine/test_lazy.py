"""An engine that starts when there is something to run."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltactl.engine.base import Done, Engine, EngineChoice, LazyEngine, Task
from deltactl.engine.local import LocalEngine


@dataclass
class Source:
    opened: list[int] = field(default_factory=list)

    def choose(self, input_bytes: int) -> EngineChoice:
        return EngineChoice("spark", f"for {input_bytes}")

    def open(self, input_bytes: int) -> Engine:
        self.opened.append(input_bytes)
        return LocalEngine(1, reason="Spark cannot run")


def double(payload: int, attempt: int) -> int:
    return payload * 2


def test_it_is_opened_by_the_first_run_and_once() -> None:
    source = Source()
    engine = LazyEngine(source, 7)
    assert (engine.name, engine.reason, engine.leaves_orphans) == ("spark", "for 7", False)
    assert source.opened == []
    for number in (1, 2):
        assert list(engine.run(double, [Task(0, number)])) == [Done(0, 0, number * 2)]
    assert source.opened == [7]
    # What ran is told, not what was planned.
    assert (engine.name, engine.reason) == ("local", "Spark cannot run")
