"""What lost or repeated tries of a task left behind: found by a run's id, in its folders alone."""

from __future__ import annotations

from collections.abc import Iterable, Set

from deltactl.errors import DeltactlError
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store


def find_strays(
    store: Store, folders: Iterable[str], run_id: str, committed: Set[str]
) -> list[str]:
    """Names of the files of a run that no commit names, sorted.

    Every file that a run writes has ``-<run_id>-`` in its name, and nobody else's has: what is
    not among ``committed`` is in no version of the table. A folder that cannot be listed is
    given as the pattern of what may be in it.
    """
    marker = f"-{run_id}-"

    def look(folder: str) -> list[str]:
        try:
            found = [info.name for info in store.list_from(folder, "part-") if marker in info.name]
        except DeltactlError:
            return [f"{folder}/part-*{marker}*".lstrip("/")]
        return [name for name in found if name not in committed]

    found = each_in_parallel(look, sorted(set(folders)))
    return sorted(name for names in found for name in names)
