"""Parse commits once for several visitors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from deltactl.errors import CorruptLogError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.parser import CommitParser, ParsedActions
from deltactl.log.commits.visitors import Visits

OnBroken = Callable[[CommitBytes, CorruptLogError], None]
"""Called with a commit that cannot be parsed."""

_CHUNK_BYTES: Final = 32 << 20


def replay_commits(
    files: Iterable[CommitBytes], visits: Visits, partition_keys: Iterable[str]
) -> Iterator[ParsedActions]:
    """Parse log files in ascending order, and give the commits among them to visitors.

    Raises:
        CorruptLogError: a file cannot be parsed; the message has the file and the line.
    """
    needed: set[str] = set()

    def asking() -> Iterator[CommitBytes]:
        for file in files:
            if visits.ask(file):
                needed.add(file.name)
            yield file

    for commits, parsed in _parse(asking(), partition_keys):
        # The versions of rows are computed only if a visitor needs one of these commits.
        if not needed.isdisjoint(parsed.names):
            visits.give(ParsedCommits.of(commits, parsed))
        yield parsed


def parse_commits(
    commits: Iterable[CommitBytes],
    partition_keys: Iterable[str] = (),
    *,
    on_broken: OnBroken | None = None,
) -> Iterator[ParsedCommits]:
    """Parse commits, some at a time.

    ``partition_keys`` are physical names of partition columns, as far as they are known.
    ``on_broken`` is called with each commit that cannot be parsed; without it, that is an error.

    Raises:
        CorruptLogError: a commit cannot be parsed; the message has the file and the line.
    """
    if on_broken is None:
        for files, parsed in _parse(commits, partition_keys):
            yield ParsedCommits.of(files, parsed)
        return
    chunk: list[CommitBytes] = []
    size = 0
    for commit in commits:
        chunk.append(commit)
        size += len(commit.data)
        if size >= _CHUNK_BYTES:
            yield from _parse_chunk(chunk, partition_keys, on_broken)
            chunk, size = [], 0
    yield from _parse_chunk(chunk, partition_keys, on_broken)


def _parse_chunk(
    commits: Sequence[CommitBytes], partition_keys: Iterable[str], on_broken: OnBroken
) -> Iterator[ParsedCommits]:
    """Parse commits together; if one cannot be parsed, divide them until it is alone."""
    try:
        # All are parsed before one is yielded: after an error, the halves are parsed again.
        parsed = list(parse_commits(commits, partition_keys))
    except CorruptLogError as error:
        if len(commits) == 1:
            on_broken(commits[0], error)
            return
        half = len(commits) // 2
        yield from _parse_chunk(commits[:half], partition_keys, on_broken)
        yield from _parse_chunk(commits[half:], partition_keys, on_broken)
        return
    yield from parsed


def _parse(
    files: Iterable[CommitBytes], partition_keys: Iterable[str]
) -> Iterator[tuple[list[CommitBytes], ParsedActions]]:
    """Yield parsed files together with their content."""
    waiting: deque[CommitBytes] = deque()

    def reading() -> Iterator[CommitBytes]:
        for file in files:
            waiting.append(file)
            yield file

    for parsed in CommitParser(partition_keys).parse(reading()):
        yield [waiting.popleft() for _ in parsed.names], parsed
