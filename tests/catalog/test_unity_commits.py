"""What deltactl asks Unity Catalog for a managed table, and how it reads the answers."""

from collections.abc import Mapping
from typing import Any

import pytest

from deltactl.catalog.http import Answer
from deltactl.catalog.managed import BacklogFullError, RatifiedCommit
from deltactl.catalog.unity_commits import UnityCommits
from deltactl.errors import (
    NotATableError,
    ObjectExistsError,
    SafetyError,
    StorageError,
    TransientStorageError,
)
from deltactl.protocol.actions import DomainMetadata

COMMIT = RatifiedCommit(7, "00000000000000000007.a.json", 10, 20, 30)


def listed(version: int) -> dict[str, Any]:
    return {
        "version": str(version),
        "timestamp": "1",
        "file-name": f"{version:020d}.a.json",
        "file-size": "2",
        "file-modification-timestamp": 3,
    }


class Http:
    """Gives one answer, and keeps what was asked."""

    def __init__(self, status: int, body: Any) -> None:
        self.answer = Answer(status, body, 0.0)
        self.body: Mapping[str, Any] = {}

    def get(self, path: str) -> Answer:
        assert path == "/delta/v1/catalogs/c/schemas/s/tables/t"
        return self.answer

    def post_once(self, path: str, body: Mapping[str, Any]) -> Answer:
        self.body = body
        return self.get(path)


def commits(http: Http) -> UnityCommits:
    def ensure_ok(answer: Answer, what: str, privileges: str) -> None:
        if not answer.is_ok:
            raise StorageError(f"cannot {what}: ask for {privileges}")

    return UnityCommits(http, "the catalog", ("c", "s", "t"), ensure_ok)  # type: ignore[arg-type]


def test_numbers_as_texts_and_any_order_are_understood() -> None:
    body = {
        "metadata": {"table-uuid": "u", "properties": {}},
        "commits": [listed(6), listed(5)],
        "latest-table-version": "6",
        "allowed-maintenance-operations": ["DATA_CLEANUP", "NEW"],
    }
    state = commits(Http(200, body)).load()
    assert [commit.version for commit in state.commits] == [5, 6]
    assert (state.latest_version, state.table_uuid, state.is_uniform) == (6, "u", False)
    assert "DATA_CLEANUP" in state.allowed and "DATA_REORGANIZATION" not in state.allowed
    assert not commits(Http(200, {**body, "allowed-maintenance-operations": None})).load().allowed
    uniform = {"table-uuid": "u", "properties": {"delta.universalFormat.enabledFormats": "iceberg"}}
    assert commits(Http(200, {**body, "metadata": uniform})).load().is_uniform


@pytest.mark.parametrize(
    "wrong",
    [
        {"commits": [listed(4), listed(6)]},
        {"commits": [listed(7)]},
        # PROTOCOL.md allows commits without a file, inline; the API of Unity Catalog has none.
        {"commits": [{**listed(6), "file-name": None}]},
        {"commits": [{"version": 6, "timestamp": 1, "content": "{}"}]},
        {"latest-table-version": None},
        {"metadata": {}},
    ],
)
def test_an_answer_that_leaves_a_version_open_is_refused(wrong: dict[str, Any]) -> None:
    body = {"metadata": {"table-uuid": "u"}, "commits": [], "latest-table-version": 6, **wrong}
    with pytest.raises(StorageError, match="in an unknown form"):
        commits(Http(200, body)).load()


def test_a_table_that_was_dropped_is_no_table() -> None:
    with pytest.raises(NotATableError):
        commits(Http(404, {"error": {"message": "none"}})).load()


def test_what_is_asked() -> None:
    http = Http(200, {})
    mark = DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark": 9}')
    commits(http).add_commit("u", COMMIT, [mark, DomainMetadata("other", "{}")])
    assert http.body["requirements"] == [{"type": "assert-table-uuid", "uuid": "u"}]
    add, domains = http.body["updates"]
    assert add["commit"]["file-name"] == COMMIT.file_name
    assert domains["updates"] == {"delta.rowTracking": {"rowIdHighWaterMark": 9}}
    commits(http).report_published("u", 7)
    assert [update["latest-published-version"] for update in http.body["updates"]] == [7]


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (409, "CommitVersionConflictException", ObjectExistsError),
        (409, "UpdateRequirementConflictException", SafetyError),
        (429, "ResourceExhaustedException", BacklogFullError),
        (503, "", TransientStorageError),
        (302, "", StorageError),
        (403, "", StorageError),
    ],
)
def test_each_refusal_has_its_error(status: int, kind: str, error: type[Exception]) -> None:
    http = Http(status, {"error": {"message": "no", "type": kind}})
    with pytest.raises(error):
        commits(http).add_commit("u", COMMIT, [])
