"""An S3 server for the tests of commits, one for the whole run."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl import DynamoDbLogStore
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from tests.support.object_servers import (
    S3_ENVIRON,
    delta_rs_options,
    ensure_moto,
    s3_options,
    s3_server,
)

S3_BUCKET = "commits"


def dynamodb(endpoint: str, region: str) -> Any:
    """A client for the server's DynamoDB."""
    from botocore.session import Session

    return Session().create_client(
        "dynamodb",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=S3_ENVIRON["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=S3_ENVIRON["AWS_SECRET_ACCESS_KEY"],
    )


def create_log_table(place: DynamoDbLogStore, endpoint: str) -> None:
    """Create a log store's table, keyed as Delta's."""
    keys = {"tablePath": "HASH", "fileName": "RANGE"}
    dynamodb(endpoint, place.region).create_table(
        TableName=place.table_name,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        BillingMode="PAY_PER_REQUEST",
    )


def write_rows(uri: str, endpoint: str, commits: int) -> None:
    """Append a row a commit with delta-rs."""
    for number in range(commits):
        rows = pa.table({"id": [number]})
        write_deltalake(uri, rows, mode="append", storage_options=delta_rs_options(endpoint))


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an S3 and DynamoDB server with the bucket ``S3_BUCKET``."""
    try:
        python = ensure_moto()
    except subprocess.CalledProcessError:
        pytest.skip("no package index that has moto, the S3 server of the tests")
    with s3_server(python, tmp_path_factory.mktemp("moto") / "log") as address:
        store = open_store(f"s3://{S3_BUCKET}", s3_options(address))
        assert isinstance(store, ObjectStore)
        store._service.file_system.call_s3("create_bucket", Bucket=S3_BUCKET)
        yield address
