"""An S3 server for the tests of commits, one for the whole run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from deltactl.storage.fsspec_store import FsspecStore
from deltactl.storage.open import open_store
from tests.support.object_servers import ensure_moto, s3_options, s3_server

S3_BUCKET = "commits"


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an S3 and DynamoDB server with the bucket ``S3_BUCKET``."""
    try:
        python = ensure_moto()
    except subprocess.CalledProcessError:
        pytest.skip("no package index that has moto, the S3 server of the tests")
    with s3_server(python, tmp_path_factory.mktemp("moto") / "log") as address:
        store = open_store(f"s3://{S3_BUCKET}", s3_options(address))
        assert isinstance(store, FsspecStore)
        store._fs.call_s3("create_bucket", Bucket=S3_BUCKET)
        yield address
