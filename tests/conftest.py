"""What every test gets: a world of its own, and skips that say why."""

import gc
import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.delta_spark import delta_spark
from tests.support.object_store_fixtures import object_servers, proxy, root, server, short_pauses
from tests.support.spark_cluster import cluster, cluster_address, cluster_folder, cluster_ui
from tests.support.stores import forgetting_fresh_stores

# For all tests of a process, wherever they are: where they are imported, there they are again.
__all__ = [
    "cluster", "cluster_address", "cluster_folder", "cluster_ui", "delta_spark", "object_servers",
    "proxy", "root", "server", "short_pauses",
]  # fmt: skip

REPOSITORY = Path(__file__).parent.parent

# After a test of Spark Connect, gRPC would start threads in each child of a fork, which end the
# child as soon as it closes their descriptors: the next Java of the process would not start.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

# As the program does. Late in a run, a full collection takes seconds.
gc.set_threshold(200_000, 50, 50)

# Shared machines stall at times: a slow example is no bug.
settings.register_profile("deltactl", deadline=None)
settings.load_profile("deltactl")

# Ignored in what a script starts in the background, and by all that this starts in turn.
signal.signal(signal.SIGINT, signal.default_int_handler)

_FOREIGN = ("DELTACTL_", "AWS_", "AZURE_", "GOOGLE_", "GCS_", "FSSPEC_", "SPARK_REMOTE")
_TERMINAL = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM", "COLUMNS", "LINES")


def find_corpus() -> Path:
    """Where the tables of other writers are, there or not."""
    return Path(os.environ.get("DELTACTL_CORPUS", REPOSITORY.parent / "shared" / "corpus"))


# Looked up once, before tests are put into a world without such variables.
CORPUS = find_corpus()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_configure(config: pytest.Config) -> None:
    """Sort the arguments: pytest 9.1 loses fixtures of a directory to which they return later."""
    config.args.sort()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use a server, and skip tests that this machine cannot run.

    The reasons of skips are in .ci/allowed-skips.txt.
    """
    reasons = {
        "corpus": _corpus_missing(),
        "pyspark": _pyspark_missing(),
        "spark": _pyspark_missing() or _java_missing(),
    }
    for item in items:
        if item.get_closest_marker("xdist_group") or _SERVERS & set(_fixtures_of(item)):
            item.add_marker("servers")
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


# Tests of a group of xdist share a server or a Spark session as well.
_SERVERS = {"object_servers", "cluster_address", "delta_spark"}


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Find unclosed connections to servers before tests that do not expect them."""
    if item.get_closest_marker("servers") and not (
        nextitem and nextitem.get_closest_marker("servers")
    ):
        gc.collect(1)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Let pytest, which collects five times, and the interpreter look at what is new alone."""
    gc.collect(1)
    gc.freeze()


def _fixtures_of(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def _corpus_missing() -> str | None:
    return None if CORPUS.is_dir() else f"corpus: no tables of other writers at {CORPUS}"


def _pyspark_missing() -> str | None:
    return "spark: PySpark is not installed" if find_spec("pyspark") is None else None


def _java_missing() -> str | None:
    return None if shutil.which("java") else "spark: no Java runtime"


@pytest.fixture(scope="session")
def new_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for an empty directory each.

    ``mktemp`` would look through the directories of all tests before, for the next free number.
    """
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def isolated_world(new_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the user's home, configuration and terminal out of the tests, and what others stored."""
    home = next(new_homes)
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(_FOREIGN) or name in _TERMINAL:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with forgetting_fresh_stores():
        yield


@pytest.fixture
def trusted_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust this machine's clock: for tables on disk whose last commit is long ago."""
    monkeypatch.setattr("deltactl.operations.trusted_time._find_proven_ms", lambda *args: args[-1])


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder with tables of other writers; for tests marked ``corpus``."""
    return CORPUS
