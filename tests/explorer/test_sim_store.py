"""The simulated stores keep the promises of the seam, or break just the one they are for."""

from collections.abc import Callable

import pytest

from deltactl.errors import SafetyError
from deltactl.storage.store import Store
from tests.explorer.programs import Outcome, Program, run_program
from tests.explorer.scenes import NOW
from tests.explorer.sim_store import direct_store
from tests.explorer.world import Call, Reply, Rules, Violation, Worlds
from tests.storage import conformance

# The explored tables name no file by its absolute address.
_ABSOLUTE = {conformance.reads_absolute_names, conformance.finds_real_names}
PROMISES = [promise for promise in conformance.PROMISES if promise not in _ABSOLUTE]


@pytest.mark.parametrize("model", ["link", "conditional"])
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_simulated_store_passes_the_conformance_suite(
    promise: Callable[[Store], None], model: str
) -> None:
    promise(direct_store(Rules("link" if model == "link" else "conditional")))


def test_a_plain_put_does_not_report_that_the_name_was_taken() -> None:
    store = direct_store(Rules("plain"))
    store.put_if_absent("file", b"first")
    store.put_if_absent("file", b"second")
    assert store.read("file") == b"second"


def test_overwriting_a_commit_is_reported_at_once() -> None:
    store = direct_store(Rules("plain"))
    name = f"_delta_log/{0:020d}.json"
    store.put_if_absent(name, b"first")
    with pytest.raises(Violation, match="one winner per version"):
        store.put_if_absent(name, b"second")


def test_leaving_the_root_is_a_violation_of_its_own() -> None:
    worlds = Worlds(Rules("conditional"))
    world = worlds.world({})

    def trespass(store: Store, clock: object) -> Outcome:
        with pytest.raises(SafetyError):
            store.put("../elsewhere", b"x")
        return Outcome("done")

    def ask(call: Call) -> Reply:
        return worlds.apply(world, call, NOW)[0]

    with pytest.raises(Violation, match="nothing outside the root"):
        run_program(Program("trespasser", trespass), 0, worlds, ask)
