"""Write the section of a report about ``maintain``: facts, ranked actions, results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltactl.cli.html_report.html import Child, Markup, element, foreign
from deltactl.cli.html_report.parts import (
    MOST_ROWS,
    Head,
    render_counts,
    render_fields,
    render_table,
    render_tiles,
)
from deltactl.cli.output.envelope import Envelope
from deltactl.cli.pages.maintain import format_score
from deltactl.units import format_size

Values = Mapping[str, Any]


def render_maintain(_envelope: Envelope, result: Values) -> Iterator[Markup]:
    """Return the parts of a table's section."""
    facts, totals = result["facts"], result["totals"]
    shown = totals["measured"] or totals["predicted"]
    word = "predicted" if totals["measured"] is None else "measured"
    yield render_tiles(
        [
            ("files fewer", f"{shown['files_removed']:,}", word),
            ("read", format_size(shown["bytes_read"]), word),
            ("freed", format_size(shown["bytes_freed"]), word),
            ("not done", f"{totals['left']:,}", "actions"),
        ]
    )
    yield _render_outcomes(result["outcomes"])
    yield _render_actions(result["actions"])
    left = Counter(it["why_left"] for it in result["actions"] if it["why_left"] is not None)
    yield render_counts("Not done, by reason", "actions", left.most_common(MOST_ROWS))
    problems = Counter(it["message"] for it in result["problems"])
    yield render_counts("Enabled, but not possible", "actions", problems.items())
    yield element("h3", "The table when the run began")
    yield render_fields(_facts(facts))


def _render_outcomes(outcomes: Sequence[Values]) -> Markup:
    if not outcomes:
        return Markup()
    heads = [
        Head("action"),
        *(Head(text, is_number=True) for text in ("files", "predicted", "read", "predicted")),
        *(Head(text, is_number=True, is_wide_only=True) for text in ("seconds", "predicted")),
        Head("note"),
    ]
    return render_table("Predicted and measured", heads, map(_outcome_row, outcomes))


def _outcome_row(outcome: Values) -> list[Child]:
    predicted, measured = outcome["predicted"], outcome["measured"]
    note = foreign(outcome["error"] or outcome["note"] or "")
    figures: list[Child] = []
    for name, write in _FIGURES:
        figures.append("-" if measured is None else write(measured[name]))
        figures.append(write(predicted[name]))
    return [outcome["action"], *figures, note]


def _write_count(value: Any) -> str:
    return f"{value:,}"


def _write_seconds(value: Any) -> str:
    return f"{value:.1f} s"


_FIGURES = (
    ("files_removed", _write_count),
    ("bytes_read", format_size),
    ("seconds", _write_seconds),
)


def _render_actions(actions: Sequence[Values]) -> Markup:
    ranked = sorted((it for it in actions if it["rank"]), key=lambda it: it["rank"])
    if not ranked:
        return Markup()
    heads = [
        Head("rank", is_number=True),
        Head("action"),
        Head("partition"),
        Head("files", is_number=True),
        Head("read", is_number=True),
        Head("score", is_number=True),
        Head("state"),
        Head("reason", is_wide_only=True),
    ]
    rows = [
        [
            str(it["rank"]),
            it["action"],
            foreign(it["partition"] or "-"),
            f"{it['predicted']['files_removed']:,}",
            format_size(it["predicted"]["bytes_read"]),
            format_score(it["score"]),
            it["state"],
            foreign(it["reason"]),
        ]
        for it in ranked[:MOST_ROWS]
    ]
    more = f", the first {MOST_ROWS}" if len(ranked) > MOST_ROWS else ""
    return render_table(f"Actions by rank ({len(ranked):,}{more})", heads, rows)


def _facts(facts: Values) -> Iterator[tuple[str, Child]]:
    yield "files", f"{facts['num_files']:,}, {format_size(facts['size_bytes'])}"
    if facts["small_files"] is not None:
        yield "small files", f"{facts['small_files']:,}, {format_size(facts['small_bytes'])}"
    yield "commits since the checkpoint", f"{facts['tail_commits']:,}"
    if facts["reclaimable_bytes"] is not None:
        yield "removable by a vacuum", format_size(facts["reclaimable_bytes"])
    if facts["hot_partitions"]:
        yield "partitions being written", f"{facts['hot_partitions']:,} of {facts['partitions']:,}"
