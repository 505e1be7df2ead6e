"""How much has to be there to do for a run to be worth it."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.units import format_count, format_size


@dataclass(frozen=True, slots=True)
class Need:
    """Least work of a run: any one that is reached is enough; sizes in bytes."""

    files: int | None = None
    size_bytes: int | None = None
    commits: int | None = None

    def find_shortfall(
        self, *, files: int = 0, size_bytes: int = 0, commits: int = 0
    ) -> str | None:
        """Say what there is and what is asked for, where nothing that is asked for is reached."""
        pairs = (
            (self.files, files, lambda n: format_count(n, "file", "files")),
            (self.size_bytes, size_bytes, format_size),
            (self.commits, commits, lambda n: format_count(n, "commit", "commits")),
        )
        asked = [(least, there, say) for least, there, say in pairs if least is not None]
        if not asked or any(there >= least for least, there, _ in asked):
            return None
        return " and ".join(f"{say(there)} of at least {say(least)}" for least, there, say in asked)
