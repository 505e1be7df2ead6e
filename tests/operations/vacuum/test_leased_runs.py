"""A vacuum spares what the other runs that hold a lease may be writing."""

import json
from dataclasses import asdict, replace

import pytest

from deltactl.errors import AccessDeniedError
from deltactl.operations.leases import LEASE_MS, Holder
from deltactl.operations.run_context import RunContext
from tests.support.forwarding import ForwardingStore
from tests.support.stores import CountingStore
from tests.support.vacuum_scenes import DAY, NOW, Scene

RUN = "6a09e667-f3bc-4908-8b2f-3bcc908bc8a1"
REASON = "perhaps of a run that holds a lease"
OUTPUT = f"part-00000-{RUN}-0.c000.zstd.parquet"  # of the run, dated by a wrong clock
NEW = "new.parquet"
OLD = "old.parquet"


def hold(scene: Scene, command: str, days: float, **changes: object) -> None:
    """A run of a command that began so many days ago, and still renews its lease."""
    since = NOW - int(days * DAY)
    holder = replace(Holder(RUN, "elsewhere", 1, since, NOW + LEASE_MS // 2), **changes)  # type: ignore[arg-type]
    content = json.dumps(asdict(holder)).encode()
    scene.store.put(f"_deltactl/leases/{command}.00000001.json", content)


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.append(60)
    found.plant(40, OUTPUT, OLD)
    found.plant(19, NEW)
    return found


@pytest.mark.parametrize("command", ["optimize", "clone", "restore"])
def test_outputs_of_a_long_run_of_any_command_stay(scene: Scene, command: str) -> None:
    hold(scene, command, days=20)
    store = CountingStore(scene.dated())
    report = scene.vacuum(store, dry_run=True)
    assert report.plan.files["path"].to_pylist() == [OLD]
    assert report.plan.kept[REASON] == 2
    assert store.names["list_from"].count("_deltactl/leases") == 1


def test_removed_files_are_considered_again_later(scene: Scene) -> None:
    [gone] = scene.append(19)
    scene.remove(18, gone)
    hold(scene, "optimize", days=20)
    report = scene.vacuum(mode="lite")
    assert report.plan.kept == {REASON: 1}
    assert report.plan.vacuumed_version is None


@pytest.mark.parametrize("changes", [{"expires_ms": NOW - 1}, {"run_id": "ours"}])
def test_expired_leases_and_the_own_lease_do_not_count(
    scene: Scene, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def context(self: Scene) -> RunContext:
        return replace(before(self), run_id="ours")

    before = Scene.context
    monkeypatch.setattr(Scene, "context", context)
    hold(scene, "vacuum", days=20, **changes)
    assert set(scene.plan()) == {OUTPUT, OLD, NEW}


class Unreadable(ForwardingStore):
    """Leases of another user, who lets nobody else read them."""

    def read(self, name: str) -> bytes:
        if name.startswith("_deltactl/leases/"):
            raise AccessDeniedError("Permission denied")
        return super().read(name)


@pytest.mark.parametrize(("days", "goes"), [(0, False), (3, True)])
def test_a_lease_that_cannot_be_read_spares_all_files_until_it_expires(
    scene: Scene, days: int, goes: bool
) -> None:
    """Its run may have started at any time."""
    scene.ago(days, lambda: hold(scene, "optimize", days=90))
    report = scene.vacuum(Unreadable(scene.store), dry_run=True)
    assert set(report.plan.files["path"].to_pylist()) == ({OUTPUT, OLD, NEW} if goes else set())
    assert report.plan.kept.get(REASON) == (None if goes else 3)
