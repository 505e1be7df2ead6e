"""The step of ``action.yml``: run deltactl, write annotations, outputs and the job summary.

The inputs are in ``DELTACTL_ACTION_*``; the runner's files are named by ``GITHUB_OUTPUT`` and
``GITHUB_STEP_SUMMARY``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.exits import MEANINGS, ExitCode
from deltactl.cli.output.github import annotate
from deltactl.cli.output.text import safe_text

MOST_ROWS = 200  # of the summary; GitHub refuses one above 1 MiB
MOST_CHARACTERS = 300


def main(environ: Mapping[str, str]) -> int:
    """Run the command of the inputs, and return the exit status of the step."""
    words = shlex.split(environ["DELTACTL_ACTION_RUN"])
    if words[:1] == ["deltactl"]:
        del words[0]
    if any(re.fullmatch(r"-o.*|--output(=.*)?|--report(=.*)?", word) for word in words):
        return refuse("the action sets --output and --report itself: leave them out")
    allowed = environ.get("DELTACTL_ACTION_ALLOWED", "0").replace(",", " ").split()
    folder = Path(tempfile.mkdtemp(prefix="deltactl-", dir=environ.get("RUNNER_TEMP")))
    result, report = folder / "result.json", folder / "report.html"
    if any(spec.name in words and spec.has_report for spec in COMMANDS):
        words += ["--report", str(report)]
    with result.open("wb") as stream:
        command = [sys.executable, "-m", "deltactl", *words, "-o", "json"]
        status = subprocess.run(command, stdout=stream, check=False).returncode
    envelopes = read_envelopes(result)
    for line in iterate_annotations(envelopes, status):
        print(line, flush=True)
    values = {
        "exit-status": str(status),
        "json": str(result),
        "report": str(report) if report.exists() else "",
    }
    append(environ, "GITHUB_OUTPUT", "".join(f"{key}={it}\n" for key, it in values.items()))
    if environ.get("DELTACTL_ACTION_SUMMARY", "true").lower() == "true":
        append(environ, "GITHUB_STEP_SUMMARY", render_summary(envelopes, status))
    return 0 if str(status) in allowed else status


def refuse(message: str) -> int:
    """Print an error about the inputs, and return the status of wrong usage."""
    print(annotate("error", "deltactl: USAGE", message))
    return int(ExitCode.USAGE)


def read_envelopes(path: Path) -> list[dict[str, Any]]:
    """Return the envelopes of a run; none if it printed no result."""
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        return []
    return list(found["runs"]) if "runs" in found else [found]


def append(environ: Mapping[str, str], name: str, text: str) -> None:
    """Append to a file of the runner, if it gives one."""
    if path := environ.get(name):
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(text)


def iterate_annotations(envelopes: Sequence[dict[str, Any]], status: int) -> Iterator[str]:
    """Return the workflow commands: errors and warnings of each table, and of the run."""
    is_told = False
    for envelope in envelopes:
        title, table = f"deltactl {envelope['command']}", envelope["table"] or "all tables"
        for warning in envelope["warnings"]:
            yield annotate("warning", title, f"{table}: {warning}")
        if error := envelope["error"]:
            hint = f" {error['hint']}" if error["hint"] else ""
            yield annotate(
                "error", f"{title}: {error['code']}", f"{table}: {error['message']}{hint}"
            )
        findings = [*_annotate_findings(envelope, title, table)]
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
    return known.get(status, "ended by a signal" if status < 0 else "unknown")


def render_summary(envelopes: Sequence[dict[str, Any]], status: int) -> str:
    """Return the section of the run in the job summary, as Markdown."""
    command = next((it["command"] for it in envelopes if it["command"]), "")
    lines = [f"### deltactl {command}: {meaning_of(status)}", ""]
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
    if "plan" in result and envelope["dry_run"]:
        return f"would rewrite {result['plan']['files']:,} files"
    if "codes" in result:
        codes = ", ".join(f"{code} {count:,}" for code, count in result["codes"].items())
        return codes or "no problems found"
    counts = [
        f"{result[key]:,} {text}"
        for key, text in (("files_removed", "files removed"), ("files_added", "files added"))
        if result.get(key)
    ]
    idle = "nothing to do" if "files_removed" in result else "done"
    return ", ".join(counts) or ("plan only" if envelope["dry_run"] else idle)


def _code(text: str) -> str:
    """Return a text of a table as code, in which Markdown and HTML have no meaning."""
    plain = safe_text(text)[:MOST_CHARACTERS]
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        "<code>" + re.sub(r"[`|*_\[\]\\!~#@:/]", lambda it: f"&#{ord(it[0])};", escaped) + "</code>"
    )


if __name__ == "__main__":
    sys.exit(main(os.environ))
