"""Parse thresholds of ``--if-needed``: the minimum work of a run."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.units import format_count, format_size


@dataclass(frozen=True, slots=True)
class Need:
    """Minimum work of a run: reaching any one threshold is enough; sizes in bytes.

    ``skip``: a run is needed if lookups by some clustering column skip a smaller share of files.
    """

    files: int | None = None
    size_bytes: int | None = None
    commits: int | None = None
    skip: float | None = None

    def find_shortfall(
        self, *, files: int = 0, size_bytes: int = 0, commits: int = 0, skip: float | None = None
    ) -> str | None:
        """Return the pending work and the thresholds as text if none is reached, else ``None``.

        ``skip`` is the lowest share of all columns; unknown shares need a run.
        """
        pairs = (
            (self.files, files, lambda n: format_count(n, "file", "files")),
            (self.size_bytes, size_bytes, format_size),
            (self.commits, commits, lambda n: format_count(n, "commit", "commits")),
        )
        asked = [(least, there, say) for least, there, say in pairs if least is not None]
        short = [f"{say(there)} (threshold: {say(least)})" for least, there, say in asked]
        is_reached = any(there >= least for least, there, _ in asked)
        if self.skip is not None:
            is_reached |= skip is None or skip < self.skip
            short.append(
                f"lookups skip {skip or 0:.0%} of the files (threshold: below {self.skip:.0%})"
            )
        return None if is_reached or not short else " and ".join(short)
