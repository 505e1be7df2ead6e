import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from deltactl.errors import StorageError
from deltactl.storage import vended
from deltactl.storage.secrets import hide_secrets
from deltactl.storage.vended import Credentials, VendedOptions

PLACE = "s3://lake/t"


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(vended, "time", clock)
    return clock


@dataclass
class Source:
    lifetime: float | None = 3600.0
    fetched: int = 0
    fails: bool = False
    prefixes: Sequence[str] = field(default=(PLACE,))

    def fetch(self) -> Sequence[Credentials]:
        if self.fails:
            raise StorageError("the catalog cannot be reached")
        self.fetched += 1
        return [
            Credentials.of(prefix, {"key": f"{prefix}#{self.fetched}"}, self.lifetime)
            for prefix in self.prefixes
        ]


def key(options: VendedOptions, uri: str = PLACE) -> str:
    return options.current(uri)["key"].partition("#")[2]


@pytest.mark.parametrize(
    ("source", "used_for"), [(Source(), 3299), (Source(lifetime=20), 9)], ids=["usual", "short"]
)
def test_credentials_are_fetched_again_before_they_end(
    clock: Clock, source: Source, used_for: int
) -> None:
    """Those that last for a short time are used for half of it."""
    options = VendedOptions({"region": "eu"}, source)
    clock.now += used_for
    assert key(options) == "1"
    clock.now += 2
    assert key(options) == "2"


def test_credentials_without_an_end_are_fetched_once(clock: Clock) -> None:
    options = VendedOptions({}, Source(lifetime=None))
    clock.now += 1e9
    assert key(options) == "1"


def test_a_failed_refresh_matters_only_at_the_end(clock: Clock) -> None:
    source = Source()
    options = VendedOptions({}, source)
    source.fails = True
    clock.now += 3500
    assert key(options) == "1"
    clock.now += 100
    with pytest.raises(StorageError):
        options.current(PLACE)


def test_workers_get_at_least_half_of_the_time(clock: Clock) -> None:
    source = Source()
    options = VendedOptions({"region": "eu"}, source)
    clock.now += 1801
    there = pickle.loads(pickle.dumps(options))
    assert key(there) == "2"
    assert dict(there) == {"region": "eu"}
    clock.now += 3301
    assert key(there) == "3"  # from the copy of the source


def test_the_longest_prefix_wins() -> None:
    source = Source(prefixes=("s3://lake", "s3://lake/a/b", "s3a://lake/a/", "gs://lake/a/b/c"))
    options = VendedOptions({}, source)
    for uri, prefix in (
        ("s3://lake/a/b/c", "s3://lake/a/b"), ("s3a://lake/a/x", "s3a://lake/a/"),
        ("s3://lake/ab", "s3://lake"),
    ):  # fmt: skip
        assert options.current(uri)["key"].startswith(f"{prefix}#")
        assert options.covers(uri)
    assert not options.covers("s3://lakes/a")
    assert not options.covers("/data")


def test_credentials_are_hidden_in_texts() -> None:
    VendedOptions({}, Source(prefixes=("s3://hidden",)))
    assert hide_secrets("as s3://hidden#1 says") == "as *** says"
