"""Commands on tables whose credentials come from a catalog, on servers that check them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltactl import Table
from deltactl.storage.network.pacing import RATE_OPTION
from deltactl.storage.open import open_store
from tests.cli.conftest import MARK, RunCli
from tests.support.object_servers import AZURE_ACCOUNT, AZURE_KEY, ObjectServer
from tests.support.object_store_fixtures import choose_servers
from tests.support.unity_stub import UnityStub, vend_keys_of_minio

pytestmark = pytest.mark.usefixtures("short_pauses")

NAME = "uc://main.sales.orders"
MINIO = pytest.mark.parametrize("server", choose_servers("minio"), indirect=True)


def upload(server: ObjectServer, address: str, folder: Path, files: int) -> None:
    """Put a table of small files on a server, with the credentials of its owner."""
    for number in range(files):
        deltalake.write_deltalake(folder, pa.table({"id": [number]}), mode="append")
    store = open_store(address, server.options)
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(folder)), path.read_bytes())


OPERATIONS = {
    "optimize --dry-run": "READ",
    "optimize": "READ_WRITE",
    "vacuum --dry-run": "READ",
    "vacuum --yes": "READ_WRITE",
    "checkpoint": "READ_WRITE",
    "check --files data": "READ",
    "generate-manifest --dry-run": "READ",
    "describe-detail": "READ",
    "describe-history": "READ",
}


@MINIO
def test_a_command_asks_at_most_three_times(
    cli: RunCli, unity: UnityStub, server: ObjectServer, root: str, tmp_path: Path
) -> None:
    upload(server, root, tmp_path / "t", 3)
    unity.add("main.sales.orders", root)
    unity.vend = vend_keys_of_minio
    given = ("--storage-option", f"endpoint_url={server.endpoint}", "-o", "json")
    for typed, operation in OPERATIONS.items():
        command, *words = typed.split()
        unity.bodies.clear()
        unity.requests.clear()
        ran = cli(command, NAME, *words, *given)
        assert ran.code == 0, ran.err
        assert ran.document["table"] == NAME
        assert [body["operation"] for body in unity.bodies] == [operation], typed
        assert len(unity.requests) <= 3, typed


@MINIO
def test_no_secret_of_a_catalog_is_shown(
    cli: RunCli,
    unity: UnityStub,
    server: ObjectServer,
    root: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the storage accepts the credentials or not."""
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", f"{MARK}-client-secret")
    upload(server, root, tmp_path / "t", 3)
    unity.add("main.sales.orders", root)
    unity.add("main.sales.here", (tmp_path / "t").as_uri())
    unity.vend = lambda operation: {
        "aws_temp_credentials": {
            "access_key_id": f"{MARK}-id",
            "secret_access_key": f"{MARK}-key",
            "session_token": f"{MARK}-session",
        }
    }
    (Path(os.environ["HOME"]) / ".databrickscfg").write_text(f"[DEFAULT]\ntoken = {MARK}-file\n")
    file = tmp_path / "deltactl.toml"
    file.write_text(f'[catalog.uc]\nclient-secret = "{MARK}-toml"\n')
    monkeypatch.setenv("DELTACTL_CONFIG", str(file))
    given = ("--storage-option", f"endpoint_url={server.endpoint}", "-vvv", "--debug")
    for number, name in enumerate((NAME, "uc://main.sales.here", "uc://main.sales.no")):
        for words in (
            ["optimize"],
            ["vacuum", "--yes"],
            ["check"],
            ["describe-detail"],
            ["config"],
        ):
            in_json = ["--log-format", "json", *(["-o", "json"] if words != ["config"] else [])]
            for form in ([], in_json):
                ran = cli(words[0], name, *words[1:], *given, *form)
                assert (ran.code == 0) is (number == 1), ran.err
                assert MARK not in ran.out + ran.err
    unity.tokens = {"another"}
    assert MARK not in cli("optimize", NAME, *given).err
    written = [path for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert not [path for path in written if MARK.encode() in path.read_bytes()]


LIFETIME_SECONDS = 8


def sign(operation: str) -> dict[str, Any]:
    """A signature that Azurite honours for some seconds."""
    from azure.storage.blob import generate_container_sas

    now = datetime.now(UTC).replace(microsecond=0)
    ends = now + timedelta(seconds=LIFETIME_SECONDS)
    signature = generate_container_sas(
        AZURE_ACCOUNT, "lake", account_key=AZURE_KEY, start=now - timedelta(minutes=5), expiry=ends,
        permission="rl" if operation == "READ" else "rwdlac",
    )  # fmt: skip
    return {
        "azure_user_delegation_sas": {"sas_token": signature},
        "expiration_time": str(int(ends.timestamp() * 1000)),
    }


@pytest.mark.slow  # it waits for a signature to expire
@pytest.mark.parametrize("server", choose_servers("azurite"), indirect=True)
def test_a_run_outlives_its_credentials(
    unity: UnityStub, server: ObjectServer, root: str, tmp_path: Path
) -> None:
    upload(server, root, tmp_path / "t", 12)
    place = root.replace("az://lake", f"abfss://lake@{AZURE_ACCOUNT}.dfs.core.windows.net")
    unity.add("main.sales.orders", place)
    unity.vend = sign
    options = {
        "connection_string": f"BlobEndpoint={server.endpoint}/{AZURE_ACCOUNT};"
        "SharedAccessSignature=none",
        RATE_OPTION: "4",
    }
    table = Table(NAME, options)
    assert table.optimize().files_removed == 12
    assert len(unity.bodies) >= 2
    assert {body["operation"] for body in unity.bodies} == {"READ_WRITE"}
    assert table.scan().read_all().num_rows == 12
    assert unity.bodies[-1]["operation"] == "READ"
