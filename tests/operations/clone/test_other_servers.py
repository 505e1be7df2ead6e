"""Clones between two servers of one kind, on which equal addresses are of different files."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from deltactl import CloneOptions, SafetyError, Table, VacuumOptions
from deltactl.operations.clone_notes import read_notes
from deltactl.storage.objects.s3 import S3Service
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.open import open_store
from tests.support.object_servers import ObjectServer, ServerMissingError, moto
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS
from tests.support.restores import ids_of
from tests.support.table_builder import Column, TableBuilder

pytestmark = [*UNCLOSED_SESSIONS, pytest.mark.xdist_group("moto")]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ObjectServer, ...]]:
    with ExitStack() as stack:
        try:
            yield tuple(
                stack.enter_context(moto(tmp_path_factory.mktemp(name))) for name in ("a", "b")
            )
        except ServerMissingError as error:
            pytest.skip(str(error))


def open_both(servers: tuple[ObjectServer, ...], name: str) -> tuple[TableBuilder, Table, Table]:
    """A table on the first server, and the same address on the second one."""
    old, new = (Table(f"{it.bucket}/{name}", it.options, warn=lambda _: None) for it in servers)
    builder = TableBuilder(open_store(old.uri, servers[0].options), [Column("id")])
    builder.append([{"id": 1}], [{"id": 2}])
    return builder, old, new


def test_a_deep_clone_to_the_same_address_on_another_server(
    servers: tuple[ObjectServer, ...],
) -> None:
    builder, old, new = open_both(servers, "moved")
    assert old.uri == new.uri
    for _ in range(2):
        report = old.clone(new, CloneOptions(deep=True, sync=True))
        assert (report.files_copied, ids_of(new)) == (report.files_added, ids_of(old))
        builder.append([{"id": 3}])
    with pytest.raises(SafetyError, match="the same table"):
        old.clone(old, CloneOptions(deep=True))
    inside = Table(f"{old.uri}/inside", servers[1].options)
    with pytest.raises(SafetyError, match="is inside the Delta table"):
        old.clone(inside, CloneOptions(deep=True))


def test_one_server_at_two_endpoints(servers: tuple[ObjectServer, ...]) -> None:
    _, table, _ = open_both(servers, "aliased")
    server = servers[0].at(servers[0].endpoint.replace("127.0.0.1", "localhost"))
    assert server.options != servers[0].options
    for name in ("", "/inside"):
        alias = Table(f"{table.uri}{name}", server.options)
        for options in (CloneOptions(deep=True), CloneOptions(deep=True, sync=True)):
            with pytest.raises(SafetyError):
                table.clone(alias, options)
    with pytest.raises(SafetyError, match="is not empty"):
        table.clone(Table(servers[0].bucket, server.options), CloneOptions(deep=True))
    assert ids_of(table) == [1, 2]


@pytest.mark.parametrize("has_copy", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_shallow_clone_on_another_server_is_refused(
    servers: tuple[ObjectServer, ...], has_copy: bool, dry_run: bool
) -> None:
    builder, source, other = open_both(servers, f"source-{has_copy}-{dry_run}")
    if has_copy:
        source.clone(other, CloneOptions(deep=True))
    target = Table(f"{source.uri}-clone", servers[1].options)
    with pytest.raises(SafetyError, match="is on another server"):
        source.clone(target, CloneOptions(deep=False), dry_run=dry_run)
    assert read_notes(builder.store) == ()
    assert list(open_store(target.uri, servers[1].options).walk()) == []
    source.vacuum(VacuumOptions(mode="full"), dry_run=True)
    options = {**servers[0].options, "default_block_size": "1048576"}
    near = Table(target.uri, options, warn=lambda _: None)
    source.clone(near, CloneOptions(deep=False))
    assert ids_of(near) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "endpoint", "server"),
    [
        (ObjectService, "", ""),
        (
            ObjectService,
            "https://a.blob.core.windows.net/?sig=x",
            "https://a.blob.core.windows.net",
        ),
        (ObjectService, "https://user:secret@host:9000/", "https://host:9000"),
        (S3Service, "https://s3.eu-west-1.amazonaws.com", "amazonaws.com"),
        (S3Service, "https://s3.cn-north-1.amazonaws.com.cn", "amazonaws.com.cn"),
        (S3Service, "http://minio:9000", "http://minio:9000"),
    ],
)
def test_the_server_of_an_endpoint(
    kind: type[ObjectService], endpoint: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "find_endpoint", lambda _: endpoint)
    assert kind.__new__(kind).server == server
