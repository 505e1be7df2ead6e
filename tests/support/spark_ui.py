"""What Spark's UI shows: its pages and its REST interface."""

import json
from typing import Final
from urllib.request import urlopen

_PAGES: Final = ("environment/", "jobs/", "stages/", "executors/", "SQL/", "SQL/execution/?id=0")
_LISTS: Final = ("environment", "jobs", "stages", "allexecutors", "sql?planDescription=true")


def read_ui(address: str) -> str:
    """The pages of the UI at an address, and what the same lists are by REST, as one text."""
    api = f"{address}/api/v1/applications"
    (application,) = json.loads(_read(api))
    paths = [f"{address}/{page}" for page in _PAGES]
    paths += [f"{api}/{application['id']}/{name}" for name in _LISTS]
    return "\n".join(map(_read, paths))


def _read(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())
