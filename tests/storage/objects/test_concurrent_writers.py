"""Many writers at once on one table on S3: the history is one line, and no row is lost or doubled.

The server is moto behind a proxy that lets one write in at a time: its own conditional writes look,
then write.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from deltactl import DynamoDbLogStore
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.storage.conftest import S3_BUCKET, create_log_table
from tests.support.concurrent_writers import Promises, Writers, ensure_linear
from tests.support.duckdb_delta import connect_duckdb
from tests.support.fault_proxy import fault_proxy
from tests.support.object_servers import delta_rs_options, ensure_delta_rs_with_dynamodb, s3_options
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS

pytestmark = [pytest.mark.xdist_group("s3"), *UNCLOSED_SESSIONS]

ALL_ROLES = ["append"] * 3 + ["delete", "optimize", "optimize", "vacuum", "checkpoint"]
FEW_ROLES = ["append", "delete", "optimize"]


@contextmanager
def writers_on(moto: str, kind: str, uri: str) -> Iterator[Writers]:
    """Give the writers of a table that agree by conditional puts, or in DynamoDB."""
    with fault_proxy(moto, keep_bodies=False, one_write_at_a_time=True) as proxy:
        ours, theirs = s3_options(proxy.endpoint), delta_rs_options(proxy.endpoint)
        if kind == "conditional puts":
            yield Writers(uri, ours, theirs)
            return
        try:
            library = ensure_delta_rs_with_dynamodb()
        except subprocess.CalledProcessError:
            pytest.skip("no package index that has deltalake 1.4.2, which speaks to DynamoDB")
        place = DynamoDbLogStore(uri.rpartition("/")[2], "us-east-1")
        create_log_table(place, proxy.endpoint)
        del theirs["aws_conditional_put"]
        theirs |= {
            "AWS_S3_LOCKING_PROVIDER": "dynamodb",
            "AWS_ENDPOINT_URL_DYNAMODB": proxy.endpoint,
            "DELTA_DYNAMO_TABLE_NAME": place.table_name,
        }
        environ = {"AWS_ENDPOINT_URL_DYNAMODB": proxy.endpoint}
        yield Writers(uri, ours, theirs, (place.table_name, place.region), library, environ)


def read_with_duckdb(store: Store, folder: Path) -> list[int]:
    """The rows as a third reader sees them, in a copy of the table: it has no S3 here."""
    for names in store.walk():
        for name, content in zip(names, store.read_many(names), strict=True):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    with connect_duckdb() as connection:
        found = connection.execute("SELECT id FROM delta_scan(?)", [str(folder)])
        return [row[0] for row in found.fetchall()]


def check(writers: Writers, notes: list[dict[str, Any]], moto: str, folder: Path) -> Counter[str]:
    """What holds of any run; gives how often each thing was done."""
    store = open_store(writers.uri, s3_options(moto))
    names = [i.name for i in store.list_from(LOG_DIR) if i.name.endswith(".json")]
    names = [name for name in names if len(name) == len(f"{LOG_DIR}/{0:020}.json")]
    assert names == [f"{LOG_DIR}/{version:020}.json" for version in range(len(names))]
    commits = list(store.read_many(names))
    ensure_linear(commits)
    ours = [version for note in notes for version in note.get("versions", ())]
    assert len(ours) == len(set(ours))
    for version in ours:
        info = json.loads(commits[version].partition(b"\n")[0])["commitInfo"]
        assert info["engineInfo"].startswith("deltactl/")
    by_us = [c for c in commits if b'"engineInfo":"deltactl/' in c.partition(b"\n")[0]]
    assert len(by_us) == len(ours)
    table = DeltaTable(writers.uri, storage_options=delta_rs_options(moto))
    assert table.version() == len(names) - 1
    read = QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
    promises = Promises.of(notes)
    promises.ensure_kept(pa.table(read)["id"].to_pylist())
    promises.ensure_kept(read_with_duckdb(store, folder))
    done = Counter(note["did"] for note in notes if note.get("ok", True))
    return done + Counter(commits_of_ours=len(ours))


@pytest.mark.parametrize(
    ("kind", "roles", "seconds"),
    [
        ("conditional puts", FEW_ROLES, 3),
        pytest.param("conditional puts", ALL_ROLES, 60, marks=pytest.mark.slow),
        # In short: its model in tests/explorer, and delta-rs in tests/storage/test_dynamodb.py.
        pytest.param("dynamodb", ALL_ROLES, 60, marks=pytest.mark.slow),
    ],
)
def test_no_row_is_lost_or_doubled(
    kind: str, roles: list[str], seconds: int, moto: str, tmp_path: Path, record_property: Any
) -> None:
    uri = f"s3://{S3_BUCKET}/concurrent/{kind.replace(' ', '-')}-{seconds}"
    with writers_on(moto, kind, uri) as writers:
        seed = [{"did": "append", "ids": [-1, -2], "ok": True}]
        write_deltalake(uri, pa.table({"id": [-1, -2]}), storage_options=delta_rs_options(moto))
        notes = [*seed, *writers.run(roles, seconds)]
        done = check(writers, notes, moto, tmp_path)
    record_property("done", str(dict(done)))
    print(dict(done))
    for role in roles:
        assert done[role] > 0, done
    assert done["commits_of_ours"] > 0
