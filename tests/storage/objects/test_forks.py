"""Processes that are forked from one with connections to an object store."""

import multiprocessing
import weakref

import pytest

from deltactl import Table
from deltactl.storage.objects import connect
from deltactl.storage.objects.connect import find_service
from deltactl.storage.providers import PROVIDERS
from tests.storage.conftest import S3_BUCKET, write_rows
from tests.support.object_servers import s3_options
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS

pytestmark = UNCLOSED_SESSIONS


@pytest.mark.xdist_group("moto")
def test_a_forked_process_uses_a_table_of_its_parent(moto: str) -> None:
    uri = f"s3://{S3_BUCKET}/forked"
    write_rows(uri, moto, commits=2)
    table = Table(uri, s3_options(moto))
    assert table.snapshot().version == 1

    def commit() -> None:
        assert table.snapshot().version == 1
        table.alter(properties={"a": "b"})

    child = multiprocessing.get_context("fork").Process(target=commit)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert table.snapshot().version == 2


def test_a_fork_while_a_thread_connects_can_connect() -> None:
    with connect._lock:
        child = multiprocessing.get_context("fork").Process(target=Table, args=("s3://b/t",))
        child.start()
        child.join(20)
    child.kill()
    child.join()
    assert child.exitcode == 0


def test_a_forked_process_never_closes_a_connection_of_its_parent() -> None:
    service = weakref.ref(find_service(PROVIDERS["memory"], "memory://parent/t", {}))

    def connect_elsewhere() -> None:
        for number in range(20):
            find_service(PROVIDERS["memory"], f"memory://{number}/t", {})
        assert service() is not None

    child = multiprocessing.get_context("fork").Process(target=connect_elsewhere)
    child.start()
    child.join(20)
    assert child.exitcode == 0
