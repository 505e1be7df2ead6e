"""Write the section of a report about ``optimize``, from the ``result`` of its JSON."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltactl.cli.html_report.charts import Series, draw_bars, draw_share
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
from deltactl.cli.pages.optimize import (
    describe_estimate,
    describe_groups,
    describe_undo,
    describe_verified,
)
from deltactl.cli.pages.sizes import describe_small, label_buckets
from deltactl.cli.pages.skipping import format_share
from deltactl.units import format_count, format_size

Values = Mapping[str, Any]

_SUMS = ("files_before", "files_after", "bytes_before", "bytes_to_rewrite")


def render_optimize(envelope: Envelope, result: Values) -> Iterator[Markup]:
    """Return the parts of a table's section."""
    plan = result["plan"]
    is_done = bool(result["versions"])
    yield render_tiles(_done_tiles(result) if is_done else _planned_tiles(plan))
    if is_done:
        undo = describe_undo(int(envelope.version_before or 0))
        yield element("p", element("strong", "Undo: "), undo, ".", class_="note")
    for kind in ("failures", "conflicts"):
        yield _render_lost(kind, result[kind])
    yield render_items(
        "Files that were written, but neither committed nor removed", result["strays"]
    )
    yield _render_sizes(plan, is_done)
    yield _render_skipping(plan["layout"])
    yield _render_partitions(plan["partitions"])
    reasons = result["rewrite"]["encoded_because"]
    yield render_counts("Row groups encoded", "row groups", reasons.items())
    yield render_counts("Not rewritten, by reason", "files", plan["left_alone"].items())
    yield element("h3", "The run")
    yield render_fields(_facts(envelope, result))


def _planned_tiles(plan: Values) -> list[tuple[str, str, str]]:
    before, after = plan["sizes_before"], plan["sizes_after"]
    return [
        ("files to rewrite", f"{plan['files']:,}", f"into {plan['bins']:,}"),
        ("to read and write", format_size(plan["bytes"]), _of(plan["considered_bytes"])),
        _files_tile(before, after),
    ]


def _done_tiles(result: Values) -> list[tuple[str, str, str]]:
    plan = result["plan"]
    return [
        ("files rewritten", f"{result['files_removed']:,}", f"into {result['files_added']:,}"),
        (
            "size of these files",
            format_size(result["bytes_added"]),
            f"was {format_size(result['bytes_removed'])}",
        ),
        ("rows", f"{result['rows_rewritten']:,}", describe_verified(result["verified"])),
        _files_tile(plan["sizes_before"], plan["sizes_after"]),
    ]


def _of(size_bytes: int) -> str:
    return f"of {format_size(size_bytes)} considered"


def _files_tile(before: Values, after: Values) -> tuple[str, str, str]:
    counts = [sum(bucket["files"] for bucket in s["histogram"]) for s in (before, after)]
    return ("files considered", f"{counts[0]:,}", f"{counts[1]:,} afterwards, as planned")


def _render_sizes(plan: Values, is_done: bool) -> Markup:
    sides = [plan["sizes_before"], plan["sizes_after"]]
    counts = [{b["from_bytes"]: b["files"] for b in side["histogram"]} for side in sides]
    buckets = label_buckets(start for found in counts for start in found)
    if not buckets:
        return Markup()
    names = ("before", "after, as planned") if is_done else ("now", "after")
    series = [
        Series(style, name, [found.get(start, 0) for start, _ in buckets])
        for style, name, found in zip(("before", "after"), names, counts, strict=True)
    ]
    return join(
        element("h3", "Files by size"),
        draw_bars([label for _, label in buckets], series, "Files by size"),
        *(
            element("p", f"Small {name}: {describe_small(side)}.", class_="faint")
            for name, side in zip(names, sides, strict=True)
        ),
        element(
            "p", "The plan assumes that an output is as large as its inputs. "
            "Compression may make it smaller.",
            class_="faint",
        ),
    )  # fmt: skip


def _render_skipping(layout: Values | None) -> Markup:
    """Return what lookups skip, for each column of a layout; only a dry run expects it."""
    if layout is None or layout["skipping"] is None:
        return Markup()
    heads = [Head("column"), Head("now", is_number=True), Head("after", is_number=True)]
    rows = [
        (
            foreign(column["column"]),
            format_share(column["skipped_before"]),
            format_share(column["skipped_after"]),
        )
        for column in layout["skipping"]["columns"]
    ]
    return render_table("Share of files that a lookup of one value skips", heads, rows)


def _render_partitions(partitions: Sequence[Values]) -> Markup:
    if not partitions:
        return Markup()
    shown = heapq.nlargest(MOST_ROWS, partitions, key=lambda row: row["bytes_to_rewrite"])
    largest = max(row["bytes_before"] for row in shown) or 1
    heads = [
        Head("partition"),
        Head("files", is_number=True),
        Head("after", is_number=True),
        Head("size", is_number=True, is_wide_only=True),
        Head("to rewrite", is_number=True),
        Head("size and to rewrite", is_wide_only=True),
    ]
    rows = [
        (
            foreign(row["partition"] or "(whole table)"),
            *_figures(row),
            draw_share(row["bytes_before"] / largest, row["bytes_to_rewrite"] / largest),
        )
        for row in shown
    ]
    total = {name: sum(row[name] for row in partitions) for name in _SUMS}
    last: list[Sequence[Child]] = [("all", *_figures(total), "")]
    others = len(partitions) - len(shown)
    if others:
        rest = {name: total[name] - sum(row[name] for row in shown) for name in _SUMS}
        last.insert(0, (f"{others:,} others", *_figures(rest), ""))
    caption = describe_cut("Partitions to rewrite", len(partitions), "with most to rewrite")
    return render_table(caption, heads, rows, last)


def _figures(row: Values) -> tuple[str, ...]:
    return (
        f"{row['files_before']:,}",
        f"{row['files_after']:,}",
        format_size(row["bytes_before"]),
        format_size(row["bytes_to_rewrite"]),
    )


def _render_lost(kind: str, lost: Sequence[Values]) -> Markup:
    if not lost:
        return Markup()
    captions = {"failures": "Not rewritten", "conflicts": "Not committed: changed by other writers"}
    shown = lost[:MOST_ROWS]
    heads = [Head("reason"), Head("files", is_number=True), Head("size", is_number=True)]
    rows = [(foreign(r["reason"]), f"{r['files']:,}", format_size(r["bytes"])) for r in shown]
    files, size = (sum(r[name] for r in lost) for name in ("files", "bytes"))
    last = [("all", f"{files:,}", format_size(size))]
    return render_table(captions[kind], heads, rows, last, class_="small")


def _facts(envelope: Envelope, result: Values) -> Iterator[tuple[str, Child]]:
    yield "planned from version", f"{envelope.version_before:,}"
    if result["versions"]:
        yield "committed versions", ", ".join(f"{v:,}" for v in result["versions"][:MOST_ROWS])
    yield "target size", format_size(result["target_size_bytes"])
    yield "small files are below", format_size(result["min_file_size_bytes"])
    considered = result["plan"]
    files = format_count(considered["considered_files"], "file", "files")
    yield "considered", f"{files}, {format_size(considered['considered_bytes'])}"
    rewrite = result["rewrite"]
    for done in ("copied", "encoded"):
        yield done, describe_groups(rewrite[f"row_groups_{done}"], rewrite[f"bytes_{done}"])
    if rewrite["estimated_from_files"] is not None:
        yield "estimated", describe_estimate(rewrite["estimated_from_files"])
    yield "engine", f"{envelope.engine} ({envelope.engine_reason})"
    if result["deletion_vectors_removed"]:
        yield "deletion vectors applied", f"{result['deletion_vectors_removed']:,}"
