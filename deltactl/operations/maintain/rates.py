"""Predict the time, the requests and the written bytes of actions, with a model.

It is corrected by earlier runs.

The defaults are for a machine and a store of average speed. After each action, the rates for its
kind of action and kind of storage are corrected with the measured values. The corrections are in a
file in the cache directory of the user; the file may be deleted at any time.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deltactl.errors import DeltactlError
from deltactl.operations.maintain.actions import Effect
from deltactl.operations.maintain.policy import ActionName
from deltactl.storage.local.store import LocalStore
from deltactl.storage.names import parse_scheme
from deltactl.units import MIB

DEFAULT_BYTES_PER_SECOND: Final = 100 * MIB
"""Bytes read and written in a second, both counted, until an action has been measured."""

DEFAULT_REQUEST_SECONDS: Final = 0.03
"""Seconds that a request to an object store takes, until an action has been measured."""

DEFAULT_SHARE_WRITTEN: Final = 0.9
"""Size of rows in larger files, as a share of their size in small files, until measured."""

_LOCAL_REQUEST_SECONDS: Final = 0.001
_START_SECONDS: Final = 0.05
_FORM: Final = 1
_WEIGHT: Final = 0.3  # of the newest measurement
_BOUNDS: Final = (0.01, 100.0)
_BOUNDS_WRITTEN: Final = (0.5, 1.0)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rate:
    """The measured value divided by the default prediction; ``runs``: number of measured runs."""

    seconds: float = 1.0
    requests: float = 1.0
    written: float = DEFAULT_SHARE_WRITTEN
    runs: int = 0


@dataclass(slots=True)
class Rates:
    """The corrections by kind of storage and action; safe to share between threads.

    ``known`` are those of earlier runs: with them, a run predicts all of its actions before it does
    the first one. ``found`` are those for later runs.
    """

    known: Mapping[str, Rate] = field(default_factory=dict)
    found: dict[str, Rate] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Begin with the corrections of earlier runs."""
        self.found = dict(self.known)

    @classmethod
    def load(cls, path: Path | None) -> Rates:
        """Read a file; an absent or invalid one means the defaults."""
        if path is None:
            return cls()
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["form"] != _FORM:
                return cls()
            return cls({key: _parse_rate(found) for key, found in content["rates"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def save(self, path: Path | None) -> None:
        """Write the file; if the directory cannot be written, only the corrections are lost."""
        if path is None or not self.found:
            return
        rates = {key: _format_rate(rate) for key, rate in sorted(self.found.items())}
        text = json.dumps({"form": _FORM, "rates": rates}, indent=2) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            LocalStore(str(path.parent)).put(path.name, text.encode())
        except (OSError, DeltactlError) as error:
            _log.info("the measured rates were not written to %s: %s", path, error)

    def predict(self, name: ActionName, uri: str, bytes_moved: int, requests: int) -> Effect:
        """Return seconds and requests of an action; a local table needs no requests.

        Args:
            name: the action.
            uri: the address of the table.
            bytes_moved: bytes that it reads and writes.
            requests: calls of the store, as the defaults count them.
        """
        rate = self.known.get(_key(name, uri), Rate())
        seconds = _default_seconds(uri, bytes_moved, requests) * rate.seconds
        sent = round(requests * rate.requests) if _is_remote(uri) else 0
        return Effect(seconds=seconds, requests=sent)

    def share_written(self, uri: str) -> float:
        """Return the size of rows after an optimize, as a share of their size before."""
        return self.known.get(_key("optimize", uri), Rate()).written

    def learn(self, name: ActionName, uri: str, predicted: Effect, measured: Effect) -> None:
        """Correct the model by one action, with both effects as they were reported."""
        key = _key(name, uri)
        used = self.known.get(key, Rate())
        seconds = _find_right(used.seconds, predicted.seconds, measured.seconds)
        requests = _find_right(used.requests, predicted.requests or 0, measured.requests)
        written = None
        if name == "optimize":
            sizes = predicted.bytes_written, measured.bytes_written
            written = _find_right(used.written, *sizes)
        with self._lock:
            before = self.found.get(key, Rate())
            self.found[key] = Rate(
                _move(before.seconds, seconds, _BOUNDS),
                _move(before.requests, requests, _BOUNDS),
                _move(before.written, written, _BOUNDS_WRITTEN),
                before.runs + 1,
            )


def _default_seconds(uri: str, bytes_moved: int, requests: int) -> float:
    one = DEFAULT_REQUEST_SECONDS if _is_remote(uri) else _LOCAL_REQUEST_SECONDS
    return _START_SECONDS + bytes_moved / DEFAULT_BYTES_PER_SECOND + requests * one


def _find_right(used: float, predicted: float, measured: float | None) -> float | None:
    """Return the factor with which the prediction would have been exact."""
    if measured is None or measured <= 0 or predicted <= 0:
        return None
    return used * measured / predicted


def _move(factor: float, right: float | None, bounds: tuple[float, float]) -> float:
    """Return a factor that is nearer to the right one."""
    if right is None:
        return factor
    low, high = bounds
    return min(max((1 - _WEIGHT) * factor + _WEIGHT * right, low), high)


def _key(name: ActionName, uri: str) -> str:
    return f"{parse_scheme(uri) or 'file'}/{name}"


def _is_remote(uri: str) -> bool:
    return (parse_scheme(uri) or "file") not in ("file", "memory")


def _parse_rate(found: Mapping[str, Any]) -> Rate:
    low, high = _BOUNDS
    seconds, requests = float(found["seconds"]), float(found["requests"])
    if not (low <= seconds <= high and low <= requests <= high):
        raise ValueError("a rate out of bounds")
    written = float(found.get("written", DEFAULT_SHARE_WRITTEN))  # older files have no such key
    if not _BOUNDS_WRITTEN[0] <= written <= _BOUNDS_WRITTEN[1]:
        raise ValueError("a rate out of bounds")
    return Rate(seconds, requests, written, int(found["runs"]))


def _format_rate(rate: Rate) -> dict[str, Any]:
    return {
        "seconds": round(rate.seconds, 4),
        "requests": round(rate.requests, 4),
        "written": round(rate.written, 4),
        "runs": rate.runs,
    }


def cache_file(environ: Mapping[str, str]) -> Path:
    """Return the file of the measured rates: in ``XDG_CACHE_HOME``, by default ``~/.cache``."""
    home = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(home) / "deltactl" / "maintain-rates.json"
