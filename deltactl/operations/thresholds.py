"""Thresholds of ``--if-needed``: the minimum work of a run."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.units import format_count, format_size


@dataclass(frozen=True, slots=True)
class Need:
    """Minimum work of a run: reaching any one threshold is enough; sizes in bytes."""

    files: int | None = None
    size_bytes: int | None = None
    commits: int | None = None

    def find_shortfall(
        self, *, files: int = 0, size_bytes: int = 0, commits: int = 0
    ) -> str | None:
        """Return the pending work and the thresholds as text if none is reached, else ``None``."""
        pairs = (
            (self.files, files, lambda n: format_count(n, "file", "files")),
            (self.size_bytes, size_bytes, format_size),
            (self.commits, commits, lambda n: format_count(n, "commit", "commits")),
        )
        asked = [(least, there, say) for least, there, say in pairs if least is not None]
        if not asked or any(there >= least for least, there, _ in asked):
            return None
        return " and ".join(f"{say(there)} of at least {say(least)}" for least, there, say in asked)
