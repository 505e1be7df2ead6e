"""Which stores are trusted with commits, which are tried out first, and which are refused."""

import itertools
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltactl import Table
from deltactl.cli.app import run
from deltactl.errors import AccessDeniedError, ObjectExistsError, SafetyError
from deltactl.storage.names import OWN_DIR
from deltactl.storage.objects.put_probe import PROBE_PREFIX, ProbeMemory, is_known
from deltactl.storage.open import open_store
from deltactl.storage.providers import AZURE, GCS, MEMORY, S3, Provider
from deltactl.storage.store import Store
from tests.storage.conftest import S3_BUCKET, write_rows
from tests.support.clock import FixedClock
from tests.support.fault_proxy import Answer, Cut, FaultProxy, Rule, fault_proxy
from tests.support.object_servers import s3_options
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS

pytestmark = [pytest.mark.xdist_group("s3"), *UNCLOSED_SESSIONS]

_numbers = itertools.count()


@pytest.mark.parametrize(
    ("provider", "endpoint", "known"),
    [
        (S3, "https://s3.eu-west-1.amazonaws.com", True),
        (S3, "https://s3.amazonaws.com/", True),
        (S3, "https://s3.cn-north-1.amazonaws.com.cn", True),
        (S3, "https://S3.Dualstack.us-east-1.AMAZONAWS.COM", True),
        (S3, "https://s3-outposts.us-east-1.amazonaws.com", False),
        (S3, "https://amazonaws.com.example.org", False),
        (S3, "https://notamazonaws.com", False),
        (S3, "http://127.0.0.1:9000", False),
        # It speaks S3, with conditions of its own.
        (S3, "https://storage.googleapis.com", False),
        (S3, "", False),
        (GCS, "https://storage.googleapis.com", True),
        (GCS, "http://localhost:4443", False),
        (AZURE, "https://account.blob.core.windows.net", True),
        (AZURE, "http://127.0.0.1:10000/devstoreaccount1", False),
        (MEMORY, "https://s3.amazonaws.com", False),
    ],
)
def test_only_endpoints_of_cloud_services_are_known(
    provider: Provider, endpoint: str, known: bool
) -> None:
    assert is_known(provider, endpoint) is known


def test_answers_are_kept_for_a_week(tmp_path: Path) -> None:
    clock = FixedClock()
    memory = ProbeMemory(str(tmp_path / "new/answers.json"), clock)
    assert not memory.knows("a")
    memory.remember("a")
    again = ProbeMemory(str(tmp_path / "new/answers.json"), clock)
    again.remember("b")
    assert memory.knows("a")
    assert memory.knows("b")
    clock.advance(7 * 24 * 3600 * 1000 - 1)
    assert memory.knows("a")
    clock.advance(1)
    assert not memory.knows("a")
    memory.remember("c")
    assert list(json.loads((tmp_path / "new/answers.json").read_text())) == ["c"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["answers.json"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": "x"}', '{"a": -5}', '{"a": 9e99}'])
def test_a_broken_memory_is_none(content: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(content)
    memory = ProbeMemory(str(path), FixedClock())
    assert not memory.knows("a")
    memory.remember("a")
    assert memory.knows("a")


def test_a_memory_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ProbeMemory(str(tmp_path / "file/answers.json"), FixedClock()).remember("a")


def test_probes_lie_where_no_reader_looks() -> None:
    assert PROBE_PREFIX.startswith(f"{OWN_DIR}/")


@pytest.fixture
def proxy(moto: str) -> Iterator[FaultProxy]:
    with fault_proxy(moto) as proxy:
        yield proxy


@pytest.fixture
def uri() -> str:
    return f"s3://{S3_BUCKET}/conditional/{next(_numbers)}/t"


def opened(uri: str, proxy: FaultProxy) -> Store:
    return open_store(uri, s3_options(proxy.endpoint))


PROBE = "_deltactl/put-if-absent-"


def ignore_conditions(proxy: FaultProxy) -> None:
    """Be a store that lets every conditional put through."""
    proxy.drop_header("if-none-match")


def test_a_store_is_tried_out_once(uri: str, proxy: FaultProxy) -> None:
    opened(uri, proxy).ensure_put_if_absent()
    puts = proxy.find("PUT", "")
    assert [PROBE in request.target for request in puts] == [True, True]
    assert puts[0].target == puts[1].target
    assert [request.headers["if-none-match"] for request in puts] == ["*", "*"]
    assert [request.status for request in puts] == [200, 412]
    assert list(opened(uri, proxy).walk()) == []
    proxy.clear()
    # Another store, another table, the same bucket: the user's cache has the answer.
    again = opened(f"{uri}/other", proxy)
    again.put_if_absent("x", b"")
    assert [PROBE in request.target for request in proxy.find("PUT", "")] == [False]


def test_only_the_first_commit_asks(uri: str, proxy: FaultProxy) -> None:
    """Looks and dry runs write nothing, whatever the store."""
    write_rows(uri, proxy.endpoint, 3)
    arguments = [f"{key}={value}" for key, value in s3_options(proxy.endpoint).items()]
    options = [word for pair in arguments for word in ("--storage-option", pair)]
    proxy.clear()
    for words in (
        ["describe-history", uri],
        ["describe-detail", uri],
        ["optimize", uri, "--dry-run"],
        ["vacuum", uri, "--dry-run"],
        ["checkpoint", uri, "--dry-run"],
    ):
        assert run([*words, *options]) == 0, words
    assert proxy.find("PUT", "") == []
    assert run(["optimize", uri, *options]) == 0
    assert len(proxy.find("PUT", PROBE)) == 2
    first = proxy.find("PUT", "")[0]
    assert PROBE in first.target


def test_a_store_that_ignores_the_condition_is_refused(uri: str, proxy: FaultProxy) -> None:
    store = opened(uri, proxy)
    write_rows(uri, proxy.endpoint, 3)
    before = sorted(name for names in store.walk() for name in names)
    ignore_conditions(proxy)
    for _ in range(2):  # bad news are not kept
        proxy.clear()
        with pytest.raises(SafetyError, match="in spite of the condition") as refused:
            Table(uri, s3_options(proxy.endpoint)).optimize()
        assert "--log-store dynamodb" in (refused.value.hint or "")
        assert len(proxy.find("PUT", PROBE)) == 2
        assert len(proxy.find("PUT", "")) == 2
    assert sorted(name for names in store.walk() for name in names) == before
    with pytest.raises(SafetyError):
        store.put_if_absent("_delta_log/00000000000000000100.json", b"")


def test_a_store_without_conditional_puts_is_refused(uri: str, proxy: FaultProxy) -> None:
    body = b"<Error><Code>NotImplemented</Code><Message>a header</Message></Error>"
    xml = {"Content-Type": "application/xml"}
    proxy.add(Rule(Answer(501, after=False, body=body, headers=xml), "PUT", PROBE, times=None))
    with pytest.raises(SafetyError, match="has no conditional puts"):
        opened(uri, proxy).ensure_put_if_absent()


def test_a_probe_that_may_not_be_written_is_no_answer(uri: str, proxy: FaultProxy) -> None:
    proxy.add(Rule(Answer(403, after=False), "PUT", PROBE, times=None))
    with pytest.raises(AccessDeniedError):
        opened(uri, proxy).ensure_put_if_absent()
    proxy.clear()
    opened(uri, proxy).ensure_put_if_absent()


def test_a_lost_reply_to_the_probe_is_no_refusal(uri: str, proxy: FaultProxy) -> None:
    """The library's retry of the first put is refused: so the store keeps the condition."""
    proxy.add(Rule(Cut(after=True), "PUT", PROBE))
    opened(uri, proxy).ensure_put_if_absent()
    assert len(proxy.find("PUT", PROBE)) == 2


@pytest.mark.parametrize("after", [True, False])
def test_a_store_that_is_busy_is_tried_out_later(uri: str, proxy: FaultProxy, after: bool) -> None:
    proxy.add(Rule(Answer(503, after=after), "PUT", PROBE, times=2))
    opened(uri, proxy).ensure_put_if_absent()
    statuses = [request.status for request in proxy.find("PUT", PROBE) if request.fault is None]
    assert statuses == ([412] if after else [200, 412])


def test_a_large_commit_is_one_conditional_request(uri: str, proxy: FaultProxy) -> None:
    """Some stores ignore the condition at the end of an upload in parts."""
    store = opened(uri, proxy)
    store.ensure_put_if_absent()
    proxy.clear()
    data = bytes(101 << 20)
    store.put_if_absent("large", data)
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("large", b"other")
    puts = proxy.find("PUT", "large")
    assert [(it.status, it.headers["if-none-match"]) for it in puts] == [(200, "*"), (412, "*")]
    assert proxy.find("POST", "large") == []
    assert store.read("large") == data


def test_an_answer_names_no_secret(uri: str, proxy: FaultProxy, tmp_path: Path) -> None:
    opened(uri, proxy).ensure_put_if_absent()
    cache = Path(ProbeMemory.of_user()._path)
    text = cache.read_text()
    assert S3_BUCKET in text
    for secret in (s3_options("")["key"], s3_options("")["secret"]):
        assert secret not in text
    assert stat.S_ISREG(cache.stat().st_mode)
