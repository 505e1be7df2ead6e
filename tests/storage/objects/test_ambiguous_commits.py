"""Commits whose outcome the store did not tell, or told wrongly: neither lost nor made twice.

A server is a row of ``SERVERS``: how to reach a table through the proxy, and which requests create
an object there.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from deltactl import DynamoDbLogStore, Table
from deltactl.errors import AccessDeniedError, CommitOutcomeUnknownError
from deltactl.log.delta_log import DeltaLog
from deltactl.storage.network import traffic
from tests.storage.conftest import S3_BUCKET, create_log_table
from tests.support.commits import settle
from tests.support.fault_proxy import (
    Answer,
    Cut,
    Fault,
    FaultProxy,
    HalfBody,
    Late,
    Rule,
    SendTwice,
    fault_proxy,
)
from tests.support.object_servers import s3_options
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS
from tests.support.table_samples import build_sample

pytestmark = UNCLOSED_SESSIONS

NAME = "_delta_log/00000000000000000001.json"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Server:
    """A store behind a proxy.

    ``method``, ``target`` and ``body`` tell the request that makes an object appear, whose name
    takes the place of ``{}``.
    """

    proxy: FaultProxy
    uri: str
    options: dict[str, str]
    method: str
    target: str
    body: str = ""
    log_store: DynamoDbLogStore | None = None

    def open(self) -> DeltaLog:
        return DeltaLog.open(self.uri, self.options, self.log_store, warn=pytest.fail)

    def table(self) -> Table:
        return Table(self.uri, self.options, log_store=self.log_store)

    def fail(self, fault: Fault, name: str = NAME, times: int | None = 1) -> None:
        self.proxy.add(Rule(fault, *self._creating(name), times=times))

    def attempts(self, name: str = NAME) -> int:
        return len(self.proxy.find(*self._creating(name)))

    def _creating(self, name: str) -> tuple[str, str, bytes]:
        return self.method, self.target.format(name), self.body.format(name).encode()


def _s3(request: pytest.FixtureRequest) -> Iterator[Server]:
    request.getfixturevalue("short_pauses")
    with fault_proxy(request.getfixturevalue("moto")) as proxy:
        # Short limits, so that a library gives up within the time of a test.
        impatient = '{"read_timeout": 1, "connect_timeout": 1}'
        options = s3_options(proxy.endpoint, config_kwargs=impatient)
        uri = f"s3://{S3_BUCKET}/ambiguous/{next(_numbers)}/a table"
        yield Server(proxy, uri, options, "PUT", "/{}$")


def _dynamodb(request: pytest.FixtureRequest) -> Iterator[Server]:
    """S3 that ignores conditions, and writers that agree in DynamoDB."""
    request.getfixturevalue("monkeypatch").setenv(
        "AWS_ENDPOINT_URL_DYNAMODB", request.getfixturevalue("moto")
    )
    for server in _s3(request):
        place = DynamoDbLogStore(f"ambiguous-{next(_numbers)}")
        create_log_table(place, request.getfixturevalue("moto"))
        server.proxy.drop_header("if-none-match")
        yield replace(server, log_store=place)


def _gcs(request: pytest.FixtureRequest) -> Iterator[Server]:
    patch = request.getfixturevalue("monkeypatch")
    patch.setattr(traffic, "SILENCE_SECONDS", 1.0)
    request.getfixturevalue("short_pauses")
    for server in _behind_a_proxy("fake-gcs", request):
        yield replace(server, method="POST", target="/upload/", body='/{}"')


def _azure(request: pytest.FixtureRequest) -> Iterator[Server]:
    request.getfixturevalue("monkeypatch").setattr(traffic, "SILENCE_SECONDS", 1.0)
    request.getfixturevalue("short_pauses")
    yield from _behind_a_proxy("azurite", request)


def _behind_a_proxy(kind: str, request: pytest.FixtureRequest) -> Iterator[Server]:
    real = request.getfixturevalue("object_servers").get(kind)
    with fault_proxy(real.endpoint) as proxy:
        options = dict(real.at(proxy.endpoint).options)
        uri = f"{real.bucket}/ambiguous/{next(_numbers)}/a table"
        yield Server(proxy, uri, options, "PUT", "/{}$")


SERVERS: dict[str, Callable[[pytest.FixtureRequest], Iterator[Server]]] = {
    "s3": _s3,
    "dynamodb": _dynamodb,
    "gcs": _gcs,
    "azure": _azure,
}
IN_GROUPS = {
    "s3": [pytest.mark.xdist_group("s3")],
    "dynamodb": [pytest.mark.xdist_group("s3"), pytest.mark.slow],
    "gcs": [pytest.mark.xdist_group("fake-gcs")],
    "azure": [pytest.mark.xdist_group("azurite")],
}


@pytest.fixture(params=[pytest.param(kind, marks=marks) for kind, marks in IN_GROUPS.items()])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    yield from SERVERS[request.param](request)


ON_S3 = pytest.mark.parametrize(
    "server", [pytest.param("s3", marks=IN_GROUPS["s3"])], indirect=True
)


def commit(txn_id: str) -> bytes:
    return json.dumps({"commitInfo": {"txnId": txn_id, "operation": "TEST"}}).encode() + b"\n"


LANDED = [Cut(after=True), Answer(503, after=True), Late(1.5), SendTwice(), HalfBody()]
NOT_LANDED = [Cut(after=False), Answer(503, after=False)]


def name_of(fault: Fault) -> str:
    return str(fault).partition(", body")[0]


@pytest.mark.parametrize("fault", [*LANDED, *NOT_LANDED], ids=name_of)
def test_a_commit_of_ours_is_recognized(fault: Fault, server: Server) -> None:
    store = server.open()
    store.ensure_can_commit()
    server.fail(fault)
    assert commit_to(store, commit("ours"))
    assert store.store.read(NAME) == commit("ours")


@pytest.mark.parametrize("fault", [*LANDED[:2], SendTwice(), NOT_LANDED[0]], ids=name_of)
def test_a_commit_of_another_is_never_taken_for_ours(fault: Fault, server: Server) -> None:
    store = server.open()
    assert commit_to(store, commit("theirs"))
    server.fail(fault)
    assert not commit_to(store, commit("ours"))
    assert store.store.read(NAME) == commit("theirs")


@pytest.mark.parametrize(
    "fault",
    [Answer(503, after=True), pytest.param(Cut(after=True), marks=pytest.mark.slow)],
    ids=name_of,
)
def test_a_store_that_never_answers_puts(fault: Fault, server: Server) -> None:
    """Every reply is lost: what is stored tells."""
    store = server.open()
    store.ensure_can_commit()
    server.fail(fault, times=None)
    assert commit_to(store, commit("ours"))
    assert store.store.read(NAME) == commit("ours")


@ON_S3
def test_what_cannot_be_settled_is_called_unknown(server: Server) -> None:
    """The put landed, but from then on nothing can be read."""
    store = server.open()
    store.ensure_can_commit()
    server.fail(Cut(after=True))
    server.proxy.add(Rule(Answer(403, after=False), "GET|HEAD", "00001.json", times=None))
    with pytest.raises(CommitOutcomeUnknownError, match="it is not known whether"):
        commit_to(store, commit("ours"))
    server.proxy.clear()
    assert store.store.read(NAME) == commit("ours")


@ON_S3
def test_a_put_that_is_not_allowed_is_no_riddle(server: Server) -> None:
    store = server.open()
    store.ensure_can_commit()
    server.fail(Answer(403, after=False), times=None)
    with pytest.raises(AccessDeniedError, match="cannot create"):
        commit_to(store, commit("ours"))
    # Where it landed nevertheless, that is what counts.
    server.proxy.clear()
    server.fail(Answer(403, after=True), times=None)
    assert commit_to(store, commit("ours"))


LAST_LINE = b'{"lastOfAll":{}}'
# The last request of an upload in parts is the one that puts the object in place. Those before it
# are not cut: Google's service passes over bytes that it has, the emulator adds them again.
LAST_REQUESTS = {
    "s3": ("POST", "/{}[?]uploadId=", ""),
    "gcs": ("PUT|POST", "/upload/.*upload_id=", "lastOfAll"),
    "azure": ("PUT", "/{}[?]comp=blocklist", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*LANDED[:2], NOT_LANDED[0]], ids=name_of)
@pytest.mark.parametrize(
    "server", [pytest.param(kind, marks=IN_GROUPS[kind]) for kind in LAST_REQUESTS], indirect=True
)
def test_a_large_commit_of_ours_is_recognized(
    fault: Fault, server: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = request.node.callspec.params["server"]
    method, target, body = LAST_REQUESTS[kind]
    monkeypatch.setattr(traffic, "SILENCE_SECONDS", 60.0)
    options = {**server.options}
    if kind == "s3":
        options["config_kwargs"] = '{"retries": {"max_attempts": 2}}'
    large = replace(server, method=method, target=target, body=body, options=options)
    content = commit("ours") + b" " * ((110 if kind == "s3" else 66) << 20) + LAST_LINE
    store = large.open()
    store.ensure_can_commit()
    large.fail(fault)
    assert commit_to(store, content)
    assert any(found.fault is not None for found in large.proxy.requests)
    assert store.store.read(NAME) == content
    large.fail(fault)
    assert not commit_to(store, commit("others"))


@pytest.mark.parametrize(
    "fault",
    [Cut(after=True), pytest.param(Answer(500, after=True), marks=pytest.mark.slow)],
    ids=name_of,
)
def test_optimize_commits_once(fault: Fault, server: Server) -> None:
    """The reply to the put of the commit is lost."""
    store = server.open()
    build_sample(store.store)
    table = server.table()
    before, rows = table.snapshot(), sorted(map(str, table.scan().read_all().to_pylist()))
    name = f"{before.version + 1:020}.json"
    server.fail(fault, name)
    report = table.optimize()
    assert report.versions == (before.version + 1,)
    after = server.table()
    assert after.snapshot().version == before.version + 1
    assert sorted(map(str, after.scan().read_all().to_pylist())) == rows


def commit_to(log: DeltaLog, content: bytes) -> bool:
    return settle(log.store, log.ensure_committer(), 1, content)


CONFLICT = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>ConditionalRequestConflict</Code>'
    b"<Message>another one was under way</Message></Error>"
)
# As MinIO words it: s3fs makes an OSError(EINVAL) of it.
FAILED = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>PreconditionFailed</Code>'
    b"<Message>At least one of the pre-conditions you specified did not hold</Message></Error>"
)


@ON_S3
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize(("status", "body"), [(409, CONFLICT), (412, FAILED)])
def test_what_s3_says_to_conditional_puts(
    status: int, body: bytes, after: bool, server: Server
) -> None:
    """409: two were under way at once, and neither need have landed. 412 may answer a retry."""
    store = server.open()
    store.ensure_can_commit()
    server.fail(Answer(status, after, body, {"Content-Type": "application/xml"}))
    assert commit_to(store, commit("ours"))
    assert store.store.read(NAME) == commit("ours")
    server.fail(Answer(status, after, body, {"Content-Type": "application/xml"}))
    assert not commit_to(store, commit("others"))


@ON_S3
def test_the_condition_goes_over_the_wire(server: Server) -> None:
    store = server.open()
    store.ensure_can_commit()
    commit_to(store, commit("ours"))
    (request,) = server.proxy.find("PUT", "00001.json$")
    assert request.headers["if-none-match"] == "*"
