"""``deltactl bundle``: facts about a table and this machine in one zip, without user data."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from deltactl import __version__
from deltactl.cli.commands.config import list_settings
from deltactl.cli.group import find_group
from deltactl.cli.options.common import TableArgument
from deltactl.cli.options.output_file import choose_output_file
from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.reference.explanations import EXPLANATIONS
from deltactl.cli.reference.program import ProgramDoc, describe_program
from deltactl.cli.session import Session
from deltactl.cli.versions import describe_versions
from deltactl.clock import SystemClock
from deltactl.errors import PartialSuccessError
from deltactl.units import format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.bundle.parts import BundleSource, Part
    from deltactl.operations.bundle.pseudonyms import Pseudonyms

_DEFAULT_COMMITS: Final = 100
_SHOWN_VARIABLES: Final = (
    "AWS_", "AZURE_", "CLOUDSDK_", "DATABRICKS_", "DELTACTL_", "FSSPEC_", "GCE_", "GCP_",
    "GITHUB_ACTIONS", "GOOGLE_", "HADOOP_", "HTTPS_PROXY", "HTTP_PROXY", "JAVA_", "KUBERNETES_",
    "LANG", "LC_", "NO_COLOR", "NO_PROXY", "OMP_", "PYSPARK_", "PYTHON", "REQUESTS_", "SPARK_",
    "SSL_", "TERM", "TMPDIR", "TZ", "XDG_", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
"""Prefixes of environment variables that change what deltactl does."""


def command(
    ctx: typer.Context,
    table: TableArgument,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the zip file to this path  [default: deltactl-bundle-TIME.zip in the "
            "working directory]",
        ),
    ] = None,
    commits: Annotated[
        int, typer.Option(min=0, metavar="N", help="Include the N newest commits of the log")
    ] = _DEFAULT_COMMITS,
    include_names: Annotated[
        bool,
        typer.Option(
            "--include-names",
            help="Keep the names of columns, properties and tags, instead of replacing them by "
            "pseudonyms",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists")] = False,
) -> None:
    """Collect facts about a table in one zip file, which you can attach to a bug report.

    The file contains the results of describe-history, describe-detail and check, and the plans of
    optimize and vacuum. It also contains the settings, the versions of libraries and the newest
    commits.

    deltactl replaces user data by pseudonyms, and does not change the table. If deltactl cannot
    collect a part, the file contains the error instead, and the exit status is 5.

    \b
    Examples:
      deltactl bundle /data/events
      deltactl bundle s3://lake/events --file events.zip --commits 20 --include-names
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    now_ms = SystemClock().now_ms()
    path = _choose_path(file, now_ms)
    from deltactl.operations.bundle.archive import ensure_free, write_archive
    from deltactl.operations.bundle.parts import dump

    ensure_free(path, force=force)
    names = make_pseudonyms(keep_names=include_names)
    parts = _collect(session, describe_program(find_group(ctx)), table, names, commits)
    page = _render_page(session, names, parts, now_ms, keeps_names=include_names)
    listed = [_describe(part) for part in parts]
    files = [
        ("index.html", page.encode()),
        ("parts.json", dump(listed)),
        *((part.name, part.data) for part in parts if part.error is None),
    ]
    size_bytes = write_archive(path, files, now_ms=now_ms, force=force)
    _present(session, path, size_bytes, listed, include_names=include_names)


def _choose_path(file: str | None, now_ms: int) -> Path:
    digits = "".join(c for c in format_timestamp(now_ms)[:19] if c.isdigit())
    name = f"deltactl-bundle-{digits}.zip" if file is None else file
    return choose_output_file("--file", name, "events.zip")


def make_pseudonyms(*, keep_names: bool) -> Pseudonyms:
    """Return pseudonyms with a new key. Words of deltactl's own messages are not replaced."""
    from deltactl.operations.bundle.pseudonyms import Pseudonyms, find_words
    from deltactl.operations.check.codes import CODES

    texts = [text for it in EXPLANATIONS.values() for text in (it.meaning, *it.causes, it.table)]
    texts += [text for code in CODES.values() for text in (code.name, code.meaning, code.repair)]
    texts += [os.strerror(number) for number in errno.errorcode]
    texts += ["file files checkpoint checkpoints retention default tombstones unsupported"]
    texts += ["is not valid JSON line column char expected bytes rows versions properties action"]
    return Pseudonyms(secrets.token_bytes(32), keep_names=keep_names, words=find_words(*texts))


def _collect(
    session: Session, program: ProgramDoc, table: str, names: Pseudonyms, commits: int
) -> list[Part]:
    from deltactl.engine.local import LocalEngine
    from deltactl.operations.bundle.parts import BundleSource, collect_part, collect_parts

    def list_all_settings(source: BundleSource) -> Any:
        return [
            _redact_setting(names, program, row)
            for row in list_settings(session, program, table, {})
        ]

    # A bundle never starts Spark, whatever the settings are.
    local = LocalEngine(reason="bundle runs in this process")
    with session.run_context("bundle", nullcontext(local)) as context:
        source = BundleSource(
            lambda: session.open_store(table, read_only=True), context, names, commits
        )
        parts = list(collect_parts(source))
        parts.append(collect_part("settings.json", source, list_all_settings))
        parts.append(collect_part("machine.json", source, lambda _: _machine(session.environ)))
    return parts


def _redact_setting(
    names: Pseudonyms, program: ProgramDoc, row: Mapping[str, Any]
) -> dict[str, Any]:
    """Keep defaults, numbers, sizes, durations and choices; replace other values and paths."""
    from deltactl.operations.bundle.rules import one_of, setting

    choices = {it for _, doc in program.commands for option in doc.options for it in option.choices}
    value, origin, name = row["value"], row["origin"], row["name"]
    if origin != "default" and value not in choices:
        value = setting(names, value)
    if origin == "file":
        file, _, key = str(name).rpartition(": ")
        known = one_of(f"{row['command']}.{row['setting']}", row["setting"])
        name = f"{names.address(file)}: {known(names, key)}"
    return {**row, "value": value, "name": name}


def _machine(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return versions, and the names of the environment variables that matter, without values."""
    shown = sorted(name for name in environ if name.startswith(_SHOWN_VARIABLES))
    return {
        "deltactl": __version__,
        "versions": list(describe_versions(environ)),
        "variables": shown,
        "other_variables": len(environ) - len(shown),
    }


def _render_page(
    session: Session, names: Pseudonyms, parts: list[Part], now_ms: int, *, keeps_names: bool
) -> str:
    from deltactl.cli.html_report.bundle import BundleFacts, render_bundle

    facts = BundleFacts(names.address(session.shown_table), session.run_id, now_ms, keeps_names)
    return render_bundle(parts, facts)


def _describe(part: Part) -> dict[str, Any]:
    error = part.error
    return {
        "name": part.name,
        "bytes": len(part.data),
        "error": None if error is None else {"code": error.code, "message": error.message},
    }


def _present(
    session: Session, path: Path, size_bytes: int, parts: list[dict[str, Any]], *,
    include_names: bool,
) -> None:  # fmt: skip
    error = session.find_interruption(
        f"the bundle {path} has only the parts that deltactl collected before the run stopped",
        is_part_done=True,
    )
    missing = [part for part in parts if part["error"] is not None]
    if missing and error is None:
        first = missing[0]
        error = PartialSuccessError(
            f"{format_count(len(missing), 'part is', 'parts are')} missing in the bundle, such "
            f"as {first['name']} ({first['error']['code']})",
            hint=f"Read the errors in {path}. Send the file as it is, or fix the cause and rerun.",
        )
    session.present(
        lambda page: _render(page, path, size_bytes, parts),
        rows=parts,
        error=error,
        result={
            "file": str(path),
            "bytes": size_bytes,
            "names_kept": include_names,
            "parts": parts,
        },
    )


def _render(page: Page, path: Path, size_bytes: int, parts: list[dict[str, Any]]) -> None:
    page.line(Styled(str(path), Tone.STRONG), f": {format_size(size_bytes)}, user data replaced")
    page.line()
    columns = [Column("part"), Column("size", right=True), Column("state", elastic=True)]
    page.table(columns, list(_rows(parts)))
    page.line()
    page.line("Before you send the file, read index.html in it.")


def _rows(parts: list[dict[str, Any]]) -> Iterator[tuple[str, str, Styled]]:
    commits = [part for part in parts if part["name"].startswith("log/0") and not part["error"]]
    if commits:
        size = format_size(sum(part["bytes"] for part in commits))
        yield f"log ({format_count(len(commits), 'commit')})", size, Styled("ok", Tone.GOOD)
    for part in parts:
        if part in commits:
            continue
        error = part["error"]
        state = Styled("ok", Tone.GOOD) if error is None else Styled(error["code"], Tone.BAD)
        yield part["name"], format_size(part["bytes"]), state
