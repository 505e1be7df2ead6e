"""Objects in an archive storage class of S3: listed and looked up, but not readable."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl import Table
from deltactl.cli.app import run
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from tests.support.object_servers import ObjectServer, delta_rs_options
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers

pytestmark = [
    *UNCLOSED_SESSIONS,
    pytest.mark.parametrize("server", choose_servers("moto"), indirect=True),
]


@pytest.mark.parametrize("in_listing", [False, True])
def test_a_restore_of_archived_files_warns(
    server: ObjectServer, root: str, capsys: pytest.CaptureFixture[str], *, in_listing: bool
) -> None:
    options = delta_rs_options(server.endpoint)
    for number in range(20 if in_listing else 1):
        rows = pa.table({"id": [number]})
        write_deltalake(root, rows, mode="append", storage_options=options)
    version = Table(root, storage_options=server.options).snapshot().version
    write_deltalake(root, pa.table({"id": [-1]}), mode="overwrite", storage_options=options)
    store = open_store(root, server.options)
    assert isinstance(store, ObjectStore)
    (path, *_) = (
        Table(store.uri, storage_options=server.options)
        .snapshot(version=version)
        .files["path"]
        .to_pylist()
    )
    bucket, _, key = store._service.key_of(f"{root}/{path}").partition("/")
    store._service.file_system.call_s3(
        "copy_object",
        Bucket=bucket,
        Key=key,
        CopySource={"Bucket": bucket, "Key": key},
        StorageClass="GLACIER",
    )
    typed = [
        word for pair in server.options.items() for word in ("--storage-option", "=".join(pair))
    ]
    assert run(["restore", root, "--to-version", str(version), "--yes", *typed]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "1 file in an archive storage class of S3" in told
    assert run(["check", root, *typed]) == 3
    assert "FILE_ARCHIVED" in capsys.readouterr().out
