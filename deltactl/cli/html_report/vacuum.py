"""Write the section of a report about ``vacuum``, from the ``result`` of its JSON."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltactl.cli.html_report.charts import Range, draw_share, draw_strip
from deltactl.cli.html_report.html import Child, Markup, element, foreign, join
from deltactl.cli.html_report.parts import (
    MOST_ROWS,
    Head,
    describe_cut,
    render_counts,
    render_fields,
    render_items,
    render_table,
    render_tiles,
)
from deltactl.cli.output.envelope import Envelope
from deltactl.cli.pages.vacuum import describe_mode, describe_undo
from deltactl.units import format_count, format_duration, format_size

Values = Mapping[str, Any]

_SHOWN_COSTS = 8


def render_vacuum(envelope: Envelope, result: Values) -> Iterator[Markup]:
    """Return the parts of a table's section: of a vacuum, or of another task of the command."""
    if "by_folder" not in result:
        yield from _render_aside(result)
        return
    is_done = not envelope.dry_run and result["run_id"] is not None
    yield render_tiles(_done_tiles(result) if is_done else _planned_tiles(result))
    if is_done:
        moved = result["quarantined_until"] is not None
        undo = describe_undo(result["run_id"], moved, envelope.table or "")
        yield element("p", element("strong", "Undo: "), undo, class_="note")
    yield from _render_deviations(result)
    if result["horizon"] is not None:
        yield _render_horizon(result["horizon"], is_done)
    yield _render_sums("Files by reason", "reason", result["by_reason"])
    yield _render_sums("Directories", "folder", result["by_folder"], "directory")
    yield render_counts("Not needed, but kept", "files", result["kept"].items())
    yield element("h3", "The run")
    yield render_fields(_facts(envelope, result))


def _planned_tiles(result: Values) -> list[tuple[str, str, str]]:
    left = result["left_over_files"]
    return [
        ("files to remove", f"{result['files']:,}", f"{left:,} left for the next run"),
        ("frees", format_size(result["bytes"]), "by the sizes in the listing or log"),
        ("empty directories", f"{result['folders']:,}", "to remove"),
    ]


def _done_tiles(result: Values) -> list[tuple[str, str, str]]:
    moved = result["quarantined_until"] is not None
    return [
        (
            "files moved to quarantine" if moved else "files deleted",
            f"{result['files_removed']:,}",
            f"of {result['files']:,} planned",
        ),
        (
            "moved" if moved else "freed",
            format_size(result["bytes_removed"]),
            f"of {format_size(result['bytes'])} planned",
        ),
        (
            "empty directories",
            f"{result['folders_removed']:,}",
            f"of {result['folders']:,} planned",
        ),
    ]


def _render_deviations(result: Values) -> Iterator[Markup]:
    """Return lists of files that were not removed as planned."""
    failures = [f"{f['path']}: {f['reason']}".lstrip(": ") for f in result["failures"]]
    yield render_items("Could not be removed", failures)
    yield render_items("Removed, but another writer started using them", result["lost"])
    yield render_items("Kept: another writer started using them", result["came_back"])
    yield render_items("Kept: they changed during the run", result["changed"])
    yield render_items("Directories that contain other tables", result["foreign_tables"])


def _render_horizon(horizon: Values, is_done: bool) -> Markup:
    readable: list[Range] = [(first, last) for first, last in horizon["readable"]]
    ends: list[Range] = [(first, last) for first, last in horizon["ends"]]
    first, last = horizon["first_version"], horizon["last_version"]
    layers = [
        ("track", "in the log", [(first, last)]),
        ("after", "readable before" if is_done else "readable now", readable),
        ("before", "no longer readable" if is_done else "no longer readable after this run", ends),
    ]
    parts: list[Markup] = [
        element("h3", "Versions that can be read"),
        draw_strip(first, last, layers),
    ]
    if ends:
        cost = format_size(horizon["cost_bytes"])
        text = f"Their files {'took' if is_done else 'take'} {cost}."
        parts += [element("p", text, class_="faint"), _render_costs(horizon["costs"])]
    return join(*parts)


def _render_costs(costs: Sequence[Values]) -> Markup:
    shown = costs[:_SHOWN_COSTS]
    if not shown:
        return Markup()
    heads = [
        Head("version", is_number=True),
        Head("size of files that only this version needs", is_number=True),
    ]
    rows = [(f"{row['version']:,}", format_size(row["bytes"])) for row in shown]
    return render_table(
        f"The latest of the versions that are no longer readable ({len(shown)})",
        heads,
        rows,
        class_="small",
    )


def _render_sums(caption: str, name: str, sums: Sequence[Values], head: str = "") -> Markup:
    if not sums:
        return Markup()
    shown = heapq.nlargest(MOST_ROWS, sums, key=lambda row: row["bytes"])
    largest = max(row["bytes"] for row in shown) or 1
    heads = [
        Head(head or name),
        Head("files", is_number=True),
        Head("size", is_number=True),
        Head("oldest", is_wide_only=True),
        Head("newest"),
        Head("share of the largest", is_wide_only=True),
    ]
    rows = [
        (foreign(row[name] or "(root)"), *_figures([row]), draw_share(0, row["bytes"] / largest))
        for row in shown
    ]
    last: list[Sequence[Child]] = [("all", *_figures(sums), "")]
    others = len(sums) - len(shown)
    if others:
        kept = {row[name] for row in shown}
        rest = [row for row in sums if row[name] not in kept]
        last.insert(0, (f"{others:,} others", *_figures(rest), ""))
    return render_table(describe_cut(caption, len(sums), "with most bytes"), heads, rows, last)


def _figures(rows: Sequence[Values]) -> tuple[str, ...]:
    """Return files, bytes, the first and the last day of some rows together."""
    return (
        f"{sum(row['files'] for row in rows):,}",
        format_size(sum(row["bytes"] for row in rows)),
        min(row["oldest"] for row in rows)[:10],
        max(row["newest"] for row in rows)[:10],
    )


def _facts(envelope: Envelope, result: Values) -> Iterator[tuple[str, Child]]:
    retention = result["retention"]
    kept_for = format_duration(retention["retain_ms"])
    yield "planned from version", f"{envelope.version_before:,}"
    if result["versions"]:
        yield "committed versions", ", ".join(f"{v:,}" for v in result["versions"])
    yield "cutoff", f"{retention['cutoff']}, {kept_for} by {retention['rule']}"
    yield (
        "mode",
        describe_mode(result["mode"], result["complete_since_version"], result["listed_files"]),
    )
    for note in result["clones"]:
        yield "shallow clone", f"{note['clone']}: its files are kept"
    if result["vanished"]:
        yield "already deleted", format_count(result["vanished"], "file", "files")
    if result["quarantined_until"] is not None:
        yield "kept until", f"at least {result['quarantined_until']}"
    yield "engine", str(envelope.engine)


def _render_aside(result: Values) -> Iterator[Markup]:
    """Return the parts of an undo, a purge of quarantine, or a forgotten shallow clone."""
    if "clone" in result:
        facts = (
            ("shallow clone", "clone"),
            ("of version", "source_version"),
            ("noted", "noted_at"),
        )
        yield render_fields((label, str(result[key])) for label, key in facts)
        return
    if "restored" in result:
        impossible = result["impossible"]
        figures = (("files restored", result["files_restored"]), ("not restored", len(impossible)))
        yield render_tiles((name, f"{count:,}", "") for name, count in figures)
        yield render_items("Restored", result["restored"])
        failed = impossible
    else:
        size = format_size(result["bytes_removed"])
        yield render_tiles([("quarantined files", f"{result['files_removed']:,}", size)])
        yield render_items("Runs", result["runs"])
        waiting = [f"{row['run_id']} until {row['until']}" for row in result["waiting"]]
        yield render_items("Kept for now", waiting)
        failed = result["failures"]
    yield render_items("Failed", [f"{row['path']}: {row['reason']}" for row in failed])
