"""The checks of the pages find what they are for."""

from pathlib import Path

import pytest

from tests.docs.blocks import find_blocks, inline_code
from tests.docs.sandbox import Sandbox, is_shown
from tests.docs.test_pages import run_block


def check(text: str, box: Sandbox) -> None:
    for block in find_blocks("page.md", text):
        run_block(block, box)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Sandbox(folder)


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ deltactl explain CONFLICT\nsomething else\n```",
        "```console\n$ deltactl explain NONE\n...\n```",
        "```sh\ndeltactl describe-detail nowhere\n```",
        "```sh\ndeltactl explain CONFLICT | grep -q something-else\n```",
        "<!-- exit: 3 -->\n```console\n$ deltactl explain CONFLICT\n...\n```",
        "```python\nfrom deltactl import Nothing\n```",
        "```python\nassert 1 == 2\n```",
        '```toml\ntarget-sise = "1MiB"\n```',
        "```crontab\n61 2 * * *  $HOME/deltactl/bin/deltactl explain\n```",
        "```crontab\n1 2 * * *  deltactl explain\n```",
        "```crontab\n1 2 * * *  $HOME/deltactl/bin/deltactl optimise x\n```",
        "```yaml\nname: x\non: push\njobs: {a: {steps: [{run: deltactl check x}]}}\n```",
        "```json\n{}\n```",
        "```text\nanything\n```",
        "<!-- checked: modules -->\n```text\noperations/nothing.py\n```",
    ],
)
def test_what_is_wrong_is_found(text: str, box: Sandbox) -> None:
    with pytest.raises((AssertionError, ImportError, ValueError)):
        check(text, box)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ndeltactl optimize s3://lake/events --no-such-option\n```",
        "```sh\nspark-submit x.py optimize s3://lake/events\n```",
    ],
)
def test_what_is_not_run_is_parsed(text: str, box: Sandbox) -> None:
    with pytest.raises(Exception, match="no-such-option|main file"):
        check(f"<!-- not run: a cluster -->\n{text}", box)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("text\n\n    deltactl check x\n", "indented"),
        ("```sh\ndeltactl check x\n", "not closed"),
        ("<!-- exit: 3 -->\nprose", "about a block"),
        ("<!-- skip: please -->\n```sh\n```", "no such comment"),
    ],
)
def test_what_would_be_passed_over_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        find_blocks("page.md", text)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("took 2 s, 12.3 KiB", "took 17 s, 9 KiB", True),
        ("12 files", "13 files", False),
        ("committed 2024-01-31T12:00:00.000Z", "committed 2026-11-21T01:02:03Z", True),
        ("day=2024-01-31", "day=2024-01-30", False),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nb\nc\ne", False),
        ("a\n...\nd", "a\nd", False),
        ("+3 -2  +1.2K -900B  +40", "+3 -2  +2K -800B  +40", True),
        ("+3 -2  +1.2K -900B  +40", "+3 -2  +2K -800B  +41", False),
    ],
)
def test_times_and_sizes_may_differ_but_counts_may_not(
    shown: str, printed: str, same: bool
) -> None:
    assert is_shown(shown, printed) is same


def test_words_in_backticks() -> None:
    assert inline_code("a `deltactl\ncheck` b\n```sh\n`no`\n```\n`c`") == ["deltactl check", "c"]
