"""The step of ``action.yml``: run deltactl, write annotations, outputs and the job summary.

The inputs are in ``DELTACTL_ACTION_*``; the runner's files are named by ``GITHUB_OUTPUT`` and
``GITHUB_STEP_SUMMARY``.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.exits import MEANINGS, ExitCode
from deltactl.cli.options.common import ReportOptions
from deltactl.cli.output.github import annotate
from deltactl.cli.output.text import safe_text
from deltactl.units import format_count

MOST_ROWS = 200  # of the summary; GitHub refuses one above 1 MiB
MOST_CHARACTERS = 300


def main(environ: Mapping[str, str]) -> int:
    """Run the command of the inputs, and return the exit status of the step."""
    try:
        words = read_words(environ["DELTACTL_ACTION_RUN"])
        allowed = read_statuses(environ.get("DELTACTL_ACTION_ALLOWED", "0"))
    except ValueError as error:
        print(annotate("error", "deltactl: USAGE", str(error)), flush=True)
        write_outputs(environ, int(ExitCode.USAGE), "", "")
        return int(ExitCode.USAGE)
    folder = Path(tempfile.mkdtemp(prefix="deltactl-", dir=environ.get("RUNNER_TEMP")))
    result, report = folder / "result.json", folder / "report.html"
    added = options_to_add(words, report)
    status = run(words, added, result)
    envelopes = read_envelopes(result)
    for line in iterate_annotations(envelopes, status, is_allowed=status in allowed):
        print(line, flush=True)
    shown = str(result) if added else ""
    write_outputs(environ, status, shown, str(report) if report.exists() else "")
    if environ.get("DELTACTL_ACTION_SUMMARY", "true").lower() == "true":
        append(environ, "GITHUB_STEP_SUMMARY", render_summary(envelopes, status))
    return 0 if status in allowed else status


def read_words(text: str) -> list[str]:
    """Return the words of the input ``run``; a backslash at the end of a line continues it.

    Raises:
        ValueError: they cannot be run.
    """
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", text))
    except ValueError as error:
        raise ValueError(f"`run` cannot be split into words: {error}") from error
    if words[:1] == ["deltactl"]:
        del words[0]
    if not words:
        raise ValueError("`run` is empty: give a command, such as check TABLE")
    if any(re.fullmatch(r"-o.*|--output(=.*)?|--report(=.*)?", word) for word in words):
        raise ValueError("the action sets --output and --report itself: leave them out")
    return words


def read_statuses(text: str) -> set[int]:
    """Return the numbers of the input ``allowed-statuses``.

    Raises:
        ValueError: it has another word.
    """
    words = text.replace(",", " ").split()
    for word in words:
        if not re.fullmatch("[0-9]{1,3}", word):
            raise ValueError(f"`allowed-statuses`: {word!r} is not an exit status, such as 3")
    return set(map(int, words))


def options_to_add(words: Sequence[str], report: Path) -> list[str]:
    """Return the options of the action; none for a command that prints only text."""
    specs = {spec.name: spec for spec in COMMANDS}
    command = next((specs[word] for word in words if word in specs), None)
    if command is not None and "output" in command.omits:
        return []
    has_report = command is not None and ReportOptions in command.shared
    return ["-o", "json", *(["--report", str(report)] if has_report else [])]


def run(words: Sequence[str], added: Sequence[str], result: Path) -> int:
    """Run deltactl, and return its exit status; for a signal, as shells do.

    The options ``added`` come before a ``--``, which ends all options. Without them, the result is
    text for the log. What deltactl prints may have text of tables, and the runner looks for
    commands in every line, so it is told to look for none. One stream keeps the order of lines.
    """
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    end = words.index("--") if "--" in words else len(words)
    command = [sys.executable, "-m", "deltactl", *words[:end], *added, *words[end:]]
    log = sys.stdout.fileno()
    with result.open("wb") as stream:
        status = subprocess.run(
            command, stdout=stream if added else log, stderr=log, check=False
        ).returncode
    # The last line may have no end, if the program was killed.
    print(f"\n::{token}::", flush=True)
    return status if status >= 0 else 128 - status


def read_envelopes(path: Path) -> list[dict[str, Any]]:
    """Return the envelopes of a run; none if it printed no result."""
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        return []
    return list(found["runs"]) if "runs" in found else [found]


def write_outputs(environ: Mapping[str, str], status: int, result: str, report: str) -> None:
    """Write the outputs of the step."""
    values = {"exit-status": str(status), "json": result, "report": report}
    append(environ, "GITHUB_OUTPUT", "".join(f"{key}={it}\n" for key, it in values.items()))


def append(environ: Mapping[str, str], name: str, text: str) -> None:
    """Append to a file of the runner, if it gives one; the run has ended, so do not fail."""
    if path := environ.get(name):
        try:
            with Path(path).open("a", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            print(annotate("warning", "deltactl", f"{name} cannot be written: {error}"))


def iterate_annotations(
    envelopes: Sequence[dict[str, Any]], status: int, *, is_allowed: bool
) -> Iterator[str]:
    """Return the workflow commands: errors and warnings of each table, and of the run."""
    is_told = False
    for envelope in envelopes:
        title = f"deltactl {envelope['command'] or ''}".strip()
        table = envelope["table"] or "all tables"
        for warning in envelope["warnings"]:
            yield annotate("warning", title, f"{table}: {warning}")
        if error := envelope["error"]:
            message = re.sub("(?<![.?!])$", ".", error["message"])
            text = f"{table}: {message} {error['hint'] or ''}".strip()
            yield annotate("error", f"{title}: {error['code']}", text)
        findings = [*_annotate_findings(envelope, title, table)]
        if envelope["exit_code"] == ExitCode.WORK_NEEDED and not findings:
            kind = "warning" if is_allowed else "error"
            findings = [annotate(kind, f"{title}: WORK_NEEDED", f"{table}: {_intent(envelope)}")]
        is_told = is_told or bool(envelope["error"] or findings)
        yield from findings
    if status and not is_told:
        yield annotate("error", f"deltactl: exit status {status}", meaning_of(status))


def _annotate_findings(envelope: Mapping[str, Any], title: str, table: str) -> Iterator[str]:
    """Return one line for each code that ``check`` found, with the first file."""
    result = envelope["result"] if isinstance(envelope["result"], dict) else {}
    first = {row["code"]: row for row in reversed(result.get("findings", ()))}
    for code, count in result.get("codes", {}).items():
        row = first[code]
        kind = "error" if row["severity"] == "error" else "warning"
        place = f" in {row['file']}" if row["file"] else ""
        yield annotate(
            kind, f"{title}: {code}", f"{table}: {count:,} found{place}: {row['meaning']}"
        )


def meaning_of(status: int) -> str:
    """Return what an exit status means."""
    known = {int(code): text for code, text in MEANINGS.items()}
    return known.get(status, "ended by a signal" if status > 128 else "unknown")


def render_summary(envelopes: Sequence[dict[str, Any]], status: int) -> str:
    """Return the section of the run in the job summary, as Markdown."""
    command = next((it["command"] for it in envelopes if it["command"]), "")
    lines = [f"### {f'deltactl {command}'.strip()}: {meaning_of(status)}", ""]
    if envelopes:
        lines += ["| table | version | result |", "|---|---|---|"]
        lines += [_row(envelope) for envelope in envelopes[:MOST_ROWS]]
    if len(envelopes) > MOST_ROWS:
        lines += ["", f"{len(envelopes) - MOST_ROWS:,} more tables are in the JSON result."]
    return "\n".join([*lines, "", ""])


def _row(envelope: Mapping[str, Any]) -> str:
    before, after = envelope["version_before"], envelope["version_after"]
    version = "" if after is None else str(after) if before == after else f"{before} to {after}"
    return f"| {_code(envelope['table'] or '')} | {version} | {_outcome(envelope)} |"


def _outcome(envelope: Mapping[str, Any]) -> str:
    if error := envelope["error"]:
        return f"**{error['code']}** {_code(error['message'])}"
    if envelope["skipped"]:
        return f"not needed: {_code(envelope['skipped'])}"
    result = envelope["result"] if isinstance(envelope["result"], dict) else {}
    if "codes" in result:
        codes = ", ".join(f"{code} {count:,}" for code, count in result["codes"].items())
        return codes or "no problems found"
    if envelope["status"] == "unchanged":
        return "nothing to do"
    if envelope["dry_run"]:
        return _intent(envelope)
    if envelope["command"] == "maintain":
        return _count_actions(result, "done", "measured")
    counts = [
        f"{format_count(result[key], 'file')} {text}"
        for key, text in (("files_removed", "removed"), ("files_added", "added"))
        if result.get(key)
    ]
    return ", ".join(counts) or "done"


def _intent(envelope: Mapping[str, Any]) -> str:
    """Return what a dry run says would be done, as far as commands say it alike."""
    result = envelope["result"] if isinstance(envelope["result"], dict) else {}
    plan = result.get("plan")
    if isinstance(plan, dict) and isinstance(plan.get("files"), int):
        return f"would rewrite {format_count(plan['files'], 'file')}"
    if envelope["command"] == "maintain":
        return _count_actions(result, "planned", "predicted")
    if envelope["command"] == "vacuum" and isinstance(result.get("files"), int):
        return f"would remove {format_count(result['files'], 'file')}"
    return "work is needed" if envelope["exit_code"] else "plan only"


def _count_actions(result: Mapping[str, Any], state: str, effect: str) -> str:
    """Return what ``maintain`` did to a table or would do, and how much it leaves."""
    count = sum(action["state"] == state for action in result["actions"])
    totals = result["totals"]
    files = format_count(totals[effect]["files_removed"], "file")
    left = f"; {totals['left']:,} left" if totals["left"] else ""
    return f"{format_count(count, 'action')} {state}: {files} fewer{left}"


def _code(text: str) -> str:
    """Return a text of a table as code, in which Markdown and HTML have no meaning."""
    plain = safe_text(text)[:MOST_CHARACTERS]
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        "<code>"
        + re.sub(r"[`|*_\[\]\\!~#@:/.$]", lambda it: f"&#{ord(it[0])};", escaped)
        + "</code>"
    )


if __name__ == "__main__":
    sys.exit(main(os.environ))
