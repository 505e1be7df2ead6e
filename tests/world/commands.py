"""deltactl's commands with random options."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from tests.world.reader import Row, State, UnreadableError
from tests.world.runs import address_of, random_run, run_command
from tests.world.steps import (
    CHANGES,
    RETENTIONS,
    STEPS,
    SkippedError,
    Take,
    add_address,
    change,
    folders,
    random_table,
    rewrite_in_place,
    write,
)
from tests.world.stores import Ran
from tests.world.upkeep import DAY_MS
from tests.world.world import Chance, Point, Run, World
from tests.world.writer import MANIFESTS, TIMES, VALUES, WITH_MANIFESTS, folder_of

Check = Callable[[World, str, Ran], None]
_QUARANTINE: Final = "_deltactl/quarantine/"
_FEATURES: Final = (
    *[["--add-feature", "deletionVectors"], ["--drop-feature", "deletionVectors"]] * 2,
    ["--set", f"{TIMES}=true"],
    ["--drop-feature", "inCommitTimestamp"],
    ["--drop-feature", "checkpointProtection"],
    ["--drop-feature", "checkpointProtection", "--truncate-history"],
)


def _optimize(world: World, chance: Chance) -> None:
    place = random_table(world, chance)
    words = chance.choice(([], [], ["--where", f"p = '{chance.choice(VALUES)}'"], ["--purge"]))
    words = words if "--where" not in words or _is_partitioned(world, place) else []
    words = [*words, *chance.choice(([], ["--rewrite", "copy"], ["--rewrite", "copy"]))]
    words = [*words, *chance.choice(([], [], ["--verify", "full"]))]
    apart = chance.apart("optimize")
    other = random_table(world, apart)
    if other != place and apart.random() < 0.3:  # one run of several tables
        words = [address_of(world, apart, other), *words]
    _on_table(world, chance, "optimize", words, place=place, check=_check_manifests)


def _vacuum(world: World, chance: Chance) -> None:
    place = random_table(world, chance)
    words = ["--mode", chance.choice(("auto", "full", "full", "lite"))]
    words += ["--max-orphan-fraction", "1"] if chance.random() < 0.9 else []
    words += chance.choice(([], [], ["--quarantine"]))
    kept = chance.choice((0, 0, 2, 3, 3))
    words += ["--keep-last", str(kept)] if kept else []
    apart = chance.apart("vacuum")
    if apart.random() < 0.5:  # after the writes of the day
        world.say(write(world, apart))
    named = _random_version(world, apart, place)
    words += ["--keep-version", str(named)] if named is not None else []
    before = _needed_by_versions(world, place, kept, named)
    other = random_table(world, apart)
    if other != place and apart.random() < 0.3:
        words += ["--also-keep-for", address_of(world, apart, other)]
    stored = _quarantine(world, place)
    run = random_run(world, chance, place)
    run.is_attended = chance.random() < 0.6
    words += [] if run.is_attended else ["--yes"]
    if not run.offset_ms and chance.random() < 0.3:
        words += ["--force-retention"]  # whose clock is right may say so
    run_command(world, chance, "vacuum", place, words, run)
    gone = sorted(path for path in before if world.space.entry(path) is None)
    if gone and not run.is_disturbed:
        world.fail("version to keep lost a file", gone[0])
    for path in _quarantine(world, place) - stored:
        entry = world.space.entry(path)
        assert entry is not None
        world.model.quarantined[path] = entry.modified_ms - DAY_MS // 24 + 7 * DAY_MS


def _random_version(world: World, apart: Chance, place: str) -> int | None:
    """Sometimes a version of a table, for an option."""
    versions = sorted(world.reader.states(place).keys() & world.model.tables[place].versions.keys())
    return apart.choice(versions) if versions and apart.random() < 0.2 else None


def _needed_by_versions(world: World, place: str, count: int, named: int | None) -> set[str]:
    """The files that the last versions and one more need, their change data too."""
    table = world.model.tables[place]
    states = world.reader.states(place)
    known = [version for version in sorted(table.versions) if version in states]
    found: set[str] = set()
    for version in [v for v in known if v == named or v in known[len(known) - count :]]:
        found |= world.reader.paths(place, states[version]) | table.versions[version].feed
    return {path for path in found if world.space.entry(path) is not None}


def _quarantine(world: World, place: str) -> set[str]:
    names = world.space.files(place)
    return {f"{place}/{name}" for name in names if name.startswith(_QUARANTINE)}


def _undo(world: World, chance: Chance) -> None:
    _on_table(world, chance, "vacuum", ["--undo", "last"])


def _purge_quarantine(world: World, chance: Chance) -> None:
    _on_table(world, chance, "vacuum", ["--purge-quarantine", "--yes"])


def _maintain(world: World, chance: Chance) -> None:
    only = chance.choice(([], [], ["--only", "vacuum"], ["--only", "log-cleanup"]))
    _on_table(world, chance, "maintain", only)


def _checkpoint(world: World, chance: Chance) -> None:
    words = chance.choice(([], ["--cleanup"], ["--cleanup"], ["--cleanup-only"], ["--repair"]))
    is_cleanup = bool(words) and words != ["--repair"]
    planned = world.model.allow_cleanup() if is_cleanup else None
    place, apart = random_table(world, chance), chance.apart("checkpoint")
    if apart.random() < 0.3:
        _alter(world, apart)
    version = None if words else _random_version(world, apart, place)
    words = words if version is None else ["--version", str(version)]
    _on_table(world, chance, "checkpoint", words, place=place)
    if is_cleanup:  # others may have changed the properties meanwhile
        world.model.allow_cleanup(planned)


def _alter(world: World, chance: Chance) -> None:
    name, value = chance.choice(CHANGES)
    words, features = ["--set", f"{name}={value}"], chance.apart("features")
    if features.random() < 0.7:
        words = features.choice(_FEATURES)
    place, truncates = random_table(world, chance), "--truncate-history" in words
    if truncates:
        world.model.allow_cleanup({place: DAY_MS})
    _on_table(world, chance, "alter", [*words, "--yes"], place=place)
    if truncates:
        world.model.allow_cleanup({place: DAY_MS})


def _restore(world: World, chance: Chance) -> None:
    place = random_table(world, chance)
    table = world.model.tables[place]
    version = chance.choice(sorted(table.versions))
    run = random_run(world, chance, place)
    words = ["--to-version", str(version), "--yes"]
    run.target = world.reader.states(place).get(version)
    run.ignores_missing = chance.random() < 0.5
    run.where = chance.choice((None, None, *VALUES)) if _is_partitioned(world, place) else None
    words += ["--where", f"p = '{run.where}'"] if run.where else []
    if run.ignores_missing:
        count = _count_unreadable(world, place, run.target, run.where)
        words += ["--ignore-missing", "--expect-files", str(count)]
    before = table.latest
    ran = run_command(world, chance, "restore", place, words, run)
    if not ran.code and not run.is_disturbed and world.model.tables[place].latest > before:
        _check_manifests(world, place, ran)
    if not ran.code and run.ignores_missing and not run.where and not run.is_disturbed:
        state = world.reader.latest(place)
        lost = world.reader.paths(place, state) & table.lost
        if lost:
            world.fail("restored version has a missing file", min(lost))


def _count_unreadable(world: World, place: str, state: State | None, value: str | None) -> int:
    """The files of a version, or of a partition of it, that are not as the log says."""
    adds = [] if state is None else state.files.values()
    count = 0
    for add in adds:
        if value in (None, (add["partitionValues"] or {}).get("p")):
            entries = [world.space.entry(path) for path in world.reader.paths_of(place, add)]
            own = world.space.entry(world.reader.file_path(place, add["path"]))
            count += None in entries or own is None or own.size != add["size"]
    return count


def _is_partitioned(world: World, place: str) -> bool:
    try:
        return bool(world.reader.latest(place).metadata.get("partitionColumns"))
    except UnreadableError:
        return False


def _manifest(world: World, chance: Chance) -> None:
    _on_table(world, chance, "generate-manifest", [], check=_check_manifests)


_CHECKS: Final = (
    ["--files", "exists"],
    ["--files", "data"],
    ["--fix", "path-encoding"],
    ["--fix", "stats"],
    ["--fix", "missing-files"],
    ["--fix", "missing-vectors", "--drop-files"],
)


def _check(world: World, chance: Chance) -> None:
    words, place = list(chance.choice(_CHECKS)), random_table(world, chance)
    kind = words[1]
    words += ["--yes"] if "--fix" in words else []
    if kind.startswith("missing"):
        words += ["--expect-files", str(_count_lost(world, place, kind))]
    _on_table(world, chance, "check", words, place=place)


def _count_lost(world: World, place: str, kind: str) -> int:
    """The live files of which others deleted the data file, or else only the vector."""
    lost, reader = world.model.tables[place].lost, world.reader
    with suppress(UnreadableError):
        adds = reader.latest(place).files.values()
        data = [reader.file_path(place, add["path"]) in lost for add in adds]
        needed = [not lost.isdisjoint(reader.paths_of(place, add)) for add in adds]
        return sum(data) if kind == "missing-files" else sum(needed) - sum(data)
    return 0


def begin_with_commands(world: World, chance: Chance) -> None:
    """Mostly, the directory is a table; many have two addresses, a clone, or a checkpoint."""
    if not world.model.tables and chance.random() < 0.9:
        _run_convert(world, chance, Run("t", world.now_ms))
        if not world.model.tables:  # the job that writes files has ended by now
            _run_convert(world, chance, Run("t", world.now_ms), is_quiet=True)
    if chance.random() < 0.7:
        world.say(add_address(world, chance))
    if world.model.tables and chance.random() < 0.5:
        run = Run("t", world.now_ms, source="t")
        _run_clone(world, chance, run, [chance.choice(("--deep", *["--shallow"] * 3))])
    if world.model.tables and chance.random() < 0.5:
        run_command(world, chance, "checkpoint", "t", [], Run("t", world.now_ms))


def _convert(world: World, chance: Chance) -> None:
    places = [place for place in folders(world) if place not in world.model.tables]
    if not places and chance.random() < 0.7:
        raise SkippedError("nothing to convert")
    place = chance.choice(places or folders(world))
    run = random_run(world, chance, place)
    landed = (path.partition("/") for path in world.model.landed)
    run.listed = frozenset(name for first, _, name in landed if first == place)
    _run_convert(world, chance, run)


def _run_convert(world: World, chance: Chance, run: Run, *, is_quiet: bool = False) -> None:
    apart = chance.apart("rewrites")
    if not is_quiet and apart.random() < 0.5 and "meanwhile" not in world.without:
        write_again = partial(world.take, "rewrite in place", apart.getrandbits(32))
        run.meanwhile.append((Point("call", apart.randint(4, 12)), write_again))
    kept = chance.choice(RETENTIONS)
    words = ["--property", f"delta.deletedFileRetentionDuration={kept}"] if kept else []
    words += (
        ["--property", f"{WITH_MANIFESTS}=true"] if chance.apart("manifests").random() < 0.7 else []
    )
    run_command(world, chance, "convert", run.place, words, run)


def _clone(world: World, chance: Chance) -> None:
    source = random_table(world, chance)
    run = random_run(world, chance, source)
    run.source = source
    words = ["--deep" if chance.random() < 0.5 else "--shallow"]
    if chance.random() < 0.3:
        words += ["--version", str(chance.choice(sorted(world.model.tables[source].versions)))]
    apart = chance.apart("clone")
    if _is_partitioned(world, source) and apart.random() < 0.2:
        run.where = apart.choice(VALUES)
        words += ["--where", f"p = '{run.where}'"]
    _run_clone(world, chance, run, words)


def _run_clone(world: World, chance: Chance, run: Run, words: list[str], target: str = "") -> None:
    source, target = run.place, target or world.new_name("clone")
    world.places.append(target)
    if "--shallow" in words or source in world.shallow:
        world.shallow.add(target)
    elif run.where is None:
        world.deep[target] = source
    run_command(world, chance, "clone", source, [address_of(world, chance, target), *words], run)
    if world.runs and source in world.deep and target in world.model.tables:
        world.model.follow_rewrites(target)  # a sync in progress may have replaced copies


def _sync_clone(world: World, chance: Chance) -> None:
    found = [(t, s) for t, s in world.deep.items() if t in world.model.tables]
    found = [(t, s) for t, s in found if s in world.model.tables]
    if not found:  # the first night makes the clone
        source, target = random_table(world, chance), world.new_name("clone")
        _run_clone(world, chance, Run(source, world.now_ms, source=source), ["--deep"], target)
        if target not in world.model.tables or target not in world.deep:
            return
        found = [(target, source)]
    target, source = chance.choice(found)
    if chance.random() < 0.5:
        world.say(change(world, chance))
    apart = chance.apart("sync")
    if apart.random() < 0.4:
        world.say(rewrite_in_place(world, apart, source, target))
    run = random_run(world, chance, chance.choice((source, target)))
    run.source = source
    words = [address_of(world, chance, target), "--deep", "--sync"]
    words += ["--full"] if apart.random() < 0.3 else []
    ran = run_command(world, chance, "clone", source, words, run)
    world.model.follow_rewrites(target)
    if not ran.code and not run.is_disturbed:
        wanted, there = world.model.rows(source), world.reader.latest(target)
        rows = world.reader.rows(target, there, frozenset(world.model.tables[target].lost))
        if (
            _with_originals(world, target, source, rows) != list(wanted)
            and not world.model.tables[source].lost
        ):
            world.fail("rows of synced clone", f"{target} has {len(rows)}, {source} {len(wanted)}")


def _with_originals(world: World, target: str, source: str, rows: list[Row]) -> list[Row]:
    """The rows of a synced clone, with those of originals that were written again.

    A sync does not see that if an optimize of the clone has rewritten the copy.
    """
    reader, wanted = world.reader, {*world.model.rows(source)}
    theirs = {add["path"] for add in reader.latest(source).files.values()}
    found = Counter(rows)
    for add in reader.latest(target).files.values():
        if add["path"] not in theirs and not reader.paths_of(target, add) & (
            world.model.tables[target].lost
        ):
            own = reader.rows_of_add(target, add)
            found -= Counter(own)
            found += Counter(world.model.as_copied(row, wanted) for row in own)
    return sorted(found.elements(), key=repr)


def _on_table(
    world: World,
    chance: Chance,
    command: str,
    words: list[str],
    place: str | None = None,
    check: Check | None = None,
) -> None:
    place = place or random_table(world, chance)
    run, before = random_run(world, chance, place), world.model.tables[place].latest
    ran = run_command(world, chance, command, place, words, run)
    has_committed = world.model.tables[place].latest > before or command == "generate-manifest"
    if check is not None and has_committed and not ran.code and not run.is_disturbed:
        check(world, place, ran)


def _check_manifests(world: World, place: str, ran: Ran) -> None:
    """The manifests of the latest version list its files, and nothing else.

    Those of a copy list files of the original until each is written.
    """
    if "the manifests were not refreshed" in ran.text:  # a warning, because the commit stays
        return
    if place in world.copies or world.space.folds:
        return
    state = world.reader.latest(place)
    if any(add.get("deletionVector") for add in state.files.values()):
        return
    if state.properties.get(WITH_MANIFESTS) != "true":
        return
    wanted: dict[str, set[str]] = {}
    for add in state.files.values():
        value = (add.get("partitionValues") or {}).get("p")
        path = world.reader.file_path(place, add["path"])
        wanted.setdefault(f"{place}/{MANIFESTS}/{folder_of(value)}manifest", set()).add(path)
    there = {f"{place}/{name}" for name in world.space.files(place) if name.startswith(MANIFESTS)}
    for name in there | set(wanted):
        entry = world.space.entry(name)
        lines = world.space.read(name).decode().split() if entry else []
        if {world.locate(line) for line in lines} != wanted.get(name, set()):
            world.fail("manifest is stale", name)


def take(world: World, name: str, number: int) -> None:
    """Take a step; what it did is a line of the story."""
    chance = Chance(number)
    world.model.sync_all()
    try:
        if line := EVERYTHING[name][1](world, chance):
            world.say(line)
    except SkippedError as error:
        world.say(f"({name}: {error})")


COMMANDS: Final[Mapping[str, tuple[int, Take]]] = {
    "optimize": (18, _optimize),
    "vacuum": (17, _vacuum),
    "undo": (1, _undo),
    "purge quarantine": (2, _purge_quarantine),
    "maintain": (5, _maintain),
    "checkpoint": (5, _checkpoint),
    "restore": (10, _restore),
    "generate-manifest": (2, _manifest),
    "check": (1, _check),
    "convert": (2, _convert),
    "clone": (10, _clone),
    "sync clone": (8, _sync_clone),
}
EVERYTHING: Final[Mapping[str, tuple[int, Take]]] = {**STEPS, **COMMANDS}
