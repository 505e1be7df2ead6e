"""The ranking and the cut, over actions without a table."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from deltactl.operations.maintain.actions import Action, Bins, Effect, TableFacts
from deltactl.operations.maintain.observe import Decision, Observation, decide
from deltactl.operations.maintain.options import Budget, Spending
from deltactl.operations.maintain.policy import ACTIONS, ActionName, MaintainPolicy
from tests.support.clock import FixedClock

MIB = 1 << 20


def rewrite(table: str, *bins: tuple[int, int], partition: str = "") -> Action:
    """An optimize with bins of so many files and MiB each."""
    files = np.array([files for files, _ in bins])
    sizes = np.array([size * MIB for _, size in bins])
    total, count = int(sizes.sum()), int(files.sum())
    gone = count - len(bins)
    return Action(
        table=table,
        name="optimize",
        reason="small files",
        partition=partition,
        predicted=Effect(
            files_removed=gone,
            requests_saved=gone,
            bytes_read=total,
            bytes_written=total,
            seconds=total / MIB / 100,
            requests=count * 2,
        ),
        bins=Bins(
            files=files,
            bytes=sizes,
            outputs=np.ones(len(bins), np.int64),
            freed=np.zeros(len(bins), np.int64),
        ),
    )


def small(table: str, name: ActionName) -> Action:
    return Action(
        table=table, name=name, reason="", predicted=Effect(requests_saved=5, requests=10)
    )


def choose(
    *actions: Action, budget: Budget | None = None, policy: MaintainPolicy | None = None
) -> Decision:
    observations: dict[str, Observation] = {}
    for action in actions:
        facts = TableFacts(action.table, action.table, "id", 1)
        before = observations.get(action.table)
        seen = () if before is None else before.actions
        observations[action.table] = Observation(facts, policy or MaintainPolicy(), (*seen, action))
    return decide(observations, Spending(budget or Budget(), FixedClock()))


def names(actions: tuple[Action, ...]) -> list[str]:
    return [action.table for action in actions]


def test_most_files_for_a_byte_come_first() -> None:
    few, many = rewrite("few", (10, 200)), rewrite("many", (200, 200))
    decision = choose(few, many)
    assert names(decision.chosen) == ["many", "few"]
    assert [action.rank for action in decision.chosen] == [1, 2]
    assert decision.order_tables(["few", "other", "many"]) == ["many", "few", "other"]


def test_freed_bytes_and_merged_files_are_weighed() -> None:
    freed = Action(
        table="freed", name="vacuum", reason="", predicted=Effect(bytes_freed=1 << 30, requests=50)
    )
    assert names(choose(freed, rewrite("many", (50, 100))).chosen)[0] == "many"
    assert names(choose(freed, rewrite("few", (2, 900))).chosen)[0] == "freed"


def test_a_smaller_action_may_fit_after_one_that_does_not() -> None:
    large, little = rewrite("large", (500, 100)), rewrite("little", (5, 10))
    decision = choose(large, little, budget=Budget(bytes=50 * MIB))
    assert names(decision.chosen) == ["little"]
    assert decision.left[0].why_left == "over the budget of 50 MiB"


def test_of_a_partition_the_bins_that_fit_are_taken() -> None:
    decision = choose(rewrite("t", (10, 40), (90, 40), (50, 40)), budget=Budget(bytes=90 * MIB))
    [part], [rest] = decision.chosen, decision.left
    assert part.is_part
    assert part.bins.files.tolist() == [90, 50]
    assert part.predicted.files_removed == 138
    assert part.predicted.bytes_read + rest.predicted.bytes_read == 120 * MIB
    assert rest.why_left == "40 MiB of it over the budget of 90 MiB"


def test_requests_and_time_cut_too() -> None:
    actions = [rewrite(f"t{n}", (100, 100)) for n in range(4)]
    assert len(choose(*actions, budget=Budget(requests=450)).chosen) == 2
    assert len(choose(*actions, budget=Budget(time=timedelta(seconds=3))).chosen) == 3


def test_a_budget_below_the_smallest_action_is_said() -> None:
    decision = choose(rewrite("t", (10, 40), (20, 50)), budget=Budget(bytes=MIB))
    assert not decision.chosen
    assert "The smallest one reads 40 MiB" in str(decision.note)
    assert choose(budget=Budget(bytes=0)).note is None


def test_what_must_wait_has_no_rank() -> None:
    decision = choose(replace(rewrite("t", (10, 40)), blocked="being written to"))
    assert not decision.chosen
    assert (decision.left[0].rank, decision.left[0].why_left) == (0, "being written to")


def test_the_order_within_a_table_is_the_safe_one() -> None:
    kinds: tuple[ActionName, ...] = ("log-cleanup", "checkpoint", "vacuum", "manifest")
    decision = choose(*(small("t", kind) for kind in kinds), rewrite("t", (2, 900)))
    chosen, _ = decision.of_table("t")
    assert tuple(action.name for action in chosen) == ACTIONS


@pytest.mark.parametrize("limit", [0, 39, 40, 89, 90, 130])
def test_a_cut_never_exceeds_the_bytes(limit: int) -> None:
    decision = choose(
        rewrite("a", (10, 40), (90, 50)),
        rewrite("b", (7, 40), (30, 40)),
        budget=Budget(bytes=limit * MIB),
    )
    assert sum(action.predicted.bytes_read for action in decision.chosen) <= limit * MIB
