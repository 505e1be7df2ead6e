"""What others do: writers, producers, backups, administrators, and time.

Each step is a general action; its parameters are chance. A step that cannot be taken is skipped.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.world.model import Landed, Table
from tests.world.reader import LOG, Action, Row
from tests.world.upkeep import DAY_MS, interval_ms
from tests.world.world import Chance, Point, Run, World
from tests.world.writer import (
    TIMES,
    VALUES,
    WITH_MANIFESTS,
    Traits,
    Writer,
    encode_rows,
    folder_of,
    new_id,
)


class SkippedError(Exception):
    """The step cannot be taken here."""


Take = Callable[[World, Chance], str | None]
"""Takes a step; gives a line that tells it, if it told none."""

RETENTIONS: Final = (None, "interval 2 days", "interval 2 days", "interval 3 days")
CHANGES: Final = (
    *(("delta.enableExpiredLogCleanup", value) for value in ("false", "false", "true", "true")),
    ("delta.logRetentionDuration", "interval 1 day"),
    ("delta.logRetentionDuration", "interval 40 days"),
    ("delta.deletedFileRetentionDuration", "interval 1 day"),
    ("delta.deletedFileRetentionDuration", "interval 40 days"),
    ("delta.checkpointInterval", "2"),
    *(("delta.enableExpiredLogCleanup", value) for value in ("false", "true", "true")),
    (WITH_MANIFESTS, "false"),
)
_PASSING: Final = (
    DAY_MS // 8,
    3 * DAY_MS // 2,
    3 * DAY_MS,
    3 * DAY_MS,
    9 * DAY_MS,
    9 * DAY_MS,
    9 * DAY_MS,
    45 * DAY_MS,
)


def found_world(world: World, chance: Chance) -> str:
    """Make what is there at first: a table, or a directory that a producer writes to."""
    if chance.random() < 0.6:
        traits = _random_traits(chance)
        Writer(world, "t").create(traits)
        _append(world, "t", chance)
        for _ in range(chance.randint(2, 5)):
            write(world, chance)
            world.pass_time(chance.choice(_PASSING[:4]))
        return f"a table, {dict(traits.properties)}" + (
            ", partitioned" if traits.partitioned else ""
        )
    is_partitioned = chance.random() < 0.5
    for _ in range(chance.randint(2, 4)):
        _land_in(world, "t", chance, is_partitioned, 0)
    return "a directory of Parquet files"


def _random_traits(chance: Chance) -> Traits:
    properties = {"delta.checkpointInterval": chance.choice(("1", "2", "3", "10"))}
    for name in ("deletedFileRetentionDuration", "logRetentionDuration"):
        kept = chance.choice(RETENTIONS)
        properties |= {f"delta.{name}": kept} if kept else {}
    if chance.random() < 0.5:
        properties["delta.enableExpiredLogCleanup"] = "false"
    if chance.random() < 0.5:
        properties["delta.setTransactionRetentionDuration"] = "interval 3 days"
    if chance.random() < 0.4:
        properties["delta.enableChangeDataFeed"] = "true"
    if chance.random() < 0.3:
        properties[TIMES] = "true"
    vectors = chance.random() < 0.31
    if not vectors and chance.random() < 0.8:
        properties[WITH_MANIFESTS] = "true"
    return Traits(chance.random() < 0.6, vectors, properties)


def random_table(world: World, chance: Chance) -> str:
    """The place of a table; most often the first one, or the one where a run is in progress."""
    places = list(world.model.tables)
    if not places:
        raise SkippedError("no table")
    if world.run is not None and world.run.place in places and chance.random() < 0.8:
        return world.run.place
    return places[0] if chance.random() < 0.7 else chance.choice(places)


def _random_value(chance: Chance, is_partitioned: bool) -> str | None:
    return chance.choice(VALUES) if is_partitioned else None


def _append(world: World, place: str, chance: Chance) -> str:
    """Some writers do not know all features of the table.

    Some look whether the next version exists, and put it a while later.
    """
    writer = Writer(world, place, is_old=chance.random() < 0.3)
    actions: list[Action] = []
    added: list[Row] = []
    values = [_random_value(chance, writer.is_partitioned) for _ in range(2)]
    for _ in range(chance.randint(1, 4)):
        value = chance.choice(values)
        ids = world.new_rows(chance.choice((2, 3, 5)))
        actions.append(writer.add(ids, value))
        added += [(n, value) for n in ids]
    if chance.random() < 0.4:
        txn = {"appId": chance.choice("ab"), "version": world.new_rows(1)[0]}
        actions.append({"txn": {**txn, "lastUpdated": world.now_ms}})
    if world.run is None or chance.random() < 0.7:
        version = writer.commit("WRITE", actions, [*world.model.rows(place), *added])
        return f"append, version {version} of {place}"
    put = partial(_put, world, world.run, writer, actions, added, world.now_ms)
    world.run.meanwhile.append((Point("later", 1), put))
    return f"a writer sees that {place} has no version {writer.state.version + 1}"


def _put(
    world: World, run: Run, writer: Writer, actions: list[Action], added: list[Row], began_ms: int
) -> None:
    """Put a version right after a run has put one, whether it is the same or not.

    Who takes longer than the retention gives up: a vacuum may have taken the files. So does the
    second of two writers: the first may have written a checkpoint.
    """
    world.model.sync_all()
    place, version = writer.place, writer.state.version + 1
    path = f"{place}/{LOG}/{version:020d}.json"
    table = world.model.tables.get(place, Table())
    if world.now_ms - began_ms >= table.file_retention_ms - world.model.slack_ms:
        return
    latest = table.latest
    if latest == version and path in run.commits and run.replaced != path:
        world.model.forget_latest(place)
        run.replaced = path
    elif latest != version - 1:
        return
    writer.commit("WRITE", actions, [*world.model.rows(place), *added])
    world.reader.forget(path)
    world.say(f"append, version {version} of {place}" + (", replaced" if run.replaced else ""))


def write(world: World, chance: Chance) -> str:
    place = random_table(world, chance)
    if world.runs and place in world.deep:  # a sync in progress may have replaced copies
        world.model.follow_rewrites(place)
    writer, rows = Writer(world, place), list(world.model.rows(place))
    kind = chance.choice(
        ("append", "append", "delete", "delete", "overwrite", "overwrite", "adopt", "alter")
    )
    live = list(writer.state.files.values())
    if kind == "adopt":
        return _adopt(world, writer, place, rows, chance)
    if kind == "alter":
        return _alter(world, chance)
    if kind == "append" or not rows or any(_is_lost(world, place, add) for add in live):
        return _append(world, place, chance)
    if kind == "overwrite":
        ids, value = world.new_rows(4), _random_value(chance, writer.is_partitioned)
        actions = [writer.remove(add) for add in live] + [writer.add(ids, value)]
        version = writer.commit("WRITE", actions, [(n, value) for n in ids])
        return f"overwrite, version {version} of {place}"
    wanted = chance.choice((2, 3))
    gone = {n for n, _ in rows if n % wanted == 0}
    features = writer.state.protocol.get("writerFeatures") or []
    by_vector = "deletionVectors" in features and chance.random() < 0.7
    actions = []
    for add in live:
        ids = world.reader.rows_of(world.reader.file_path(place, add["path"]))
        if gone & set(ids):
            vector = add.get("deletionVector")
            if vector is not None:  # what is deleted already stays so
                left = {n for n, _ in rows}
                gone_here = {n for n in ids if n in gone or n not in left}
            else:
                gone_here = gone
            actions += writer.delete_rows(add, gone_here, by_vector=by_vector)
    rows = [row for row in rows if row[0] not in gone]
    version = writer.commit("DELETE", actions, rows)
    return f"delete where id % {wanted} = 0, version {version} of {place}"


def _is_lost(world: World, place: str, add: Action) -> bool:
    return world.reader.file_path(place, add["path"]) in world.model.tables[place].lost


def _adopt(
    world: World, writer: Writer, place: str, rows: list[tuple[int, str | None]], chance: Chance
) -> str:
    """A writer takes a landed file into the table, as ``COPY INTO`` and others do."""
    found = [path for path in world.model.landed if path.startswith(f"{place}/")]
    found = [path for path in found if world.space.entry(path) is not None]
    if not found:
        return _append(world, place, chance)
    path = chance.choice(sorted(found))
    entry = world.space.entry(path)
    assert entry is not None
    ids, value = world.reader.rows_of(path), _random_value(chance, writer.is_partitioned)
    add = writer.name_file(path.removeprefix(f"{place}/"), ids, value, entry.size)
    version = writer.commit("COPY INTO", [add], [*rows, *((n, value) for n in ids)])
    return f"{path} is taken in by version {version}"


def _alter(world: World, chance: Chance) -> str:
    place = random_table(world, chance)
    writer = Writer(world, place)
    name, value = chance.choice(CHANGES)
    properties = {**writer.state.properties, name: value}
    metadata = {k: v for k, v in writer.state.metadata.items() if v is not None}
    action = {"metaData": {**metadata, "configuration": properties}}
    version = writer.commit("SET TBLPROPERTIES", [action], list(world.model.rows(place)))
    return f"{name} = {value}, version {version} of {place}"


def _vacuum_by_spark(world: World, chance: Chance) -> str:
    """As VACUUM of Delta on Spark: it knows live files and tombstones, and nothing else."""
    place = random_table(world, chance)
    if world.run is not None and world.run.place in world.model.tables:
        place = world.run.place
    state = Writer(world, place).state
    kept_ms = interval_ms(state.properties, "delta.deletedFileRetentionDuration", 7 * DAY_MS)
    before_ms = world.now_ms - kept_ms
    needed = {world.space.actual(path) for path in world.reader.paths(place, state)}
    for body in state.tombstones.values():
        if (body.get("deletionTimestamp") or 0) >= before_ms:
            needed.add(world.space.actual(world.reader.file_path(place, body["path"])))
            if body.get("deletionVector"):
                needed.add(world.reader.vector_path(place, body["deletionVector"]) or "")
    gone = []
    for name, entry in world.space.files(place).items():
        path = f"{place}/{name}"
        is_hidden = any(p[0] in "_." and not p.startswith("_change") for p in name.split("/"))
        if not is_hidden and path not in needed and entry.modified_ms < before_ms:
            gone.append(path)
    for run in world.runs:
        if not run.commits:
            run.vacuumed |= {*gone}
    for path in gone:
        world.model.lose(path, spared=place)
        world.space.delete(path)
        world.model.landed.pop(path, None)
    return f"another program vacuums {place}: {len(gone)} files"


def _land(world: World, chance: Chance) -> str:
    place = chance.choice(folders(world))
    is_partitioned = any(name.startswith("p=") for name in world.space.files(place))
    return _land_in(world, place, chance, is_partitioned, chance.choice((0, 0, 0, 1, 30)) * DAY_MS)


def _land_in(world: World, place: str, chance: Chance, is_partitioned: bool, age_ms: int) -> str:
    """A file arrives, written or renamed into place: then it keeps its time."""
    value, like_delta = _random_value(chance, is_partitioned), chance.random() < 0.35
    number = world.new_rows(1)[0]
    names = [f"events-{number}.parquet", f"data_{number}_0.parquet", f"run-{number}/0.parquet"]
    name = f"part-00000-{new_id(world.ids)}-c000.snappy.parquet"
    path = f"{place}/{folder_of(value)}{name if like_delta else chance.choice(names)}"
    content = encode_rows(world.new_rows(3))
    world.space.write(path, content, world.now_ms - age_ms)
    path = world.space.actual(path)
    entry = world.space.entry(path)
    assert entry is not None
    world.model.landed[path] = Landed(entry.ident, content, entry.modified_ms, like_delta)
    world.model.produced.add(path)
    return f"{path} lands, {age_ms // DAY_MS} days old"


def rewrite_in_place(world: World, chance: Chance, place: str = "", copy: str = "") -> str:
    """A producer writes a file that it landed again, under the same name: mostly a live one.

    With ``copy``, mostly one that this table has by the same name.
    """
    found = sorted(path for path in world.model.produced if world.space.entry(path))
    found = [path for path in found if path.startswith(f"{place}/")] or found
    if not found:
        return _land(world, chance)
    live = _live_files(world)
    shared = {path for path in live if copy and copy + path.removeprefix(place) in live}
    preferred = sorted((shared & {*found}) or (live & {*found}))
    path = chance.choice(preferred if preferred and chance.random() < 0.8 else found)
    old = world.reader.rows_of(path)
    new = world.new_rows(len(old))
    world.model.change_rows(path, dict(zip(old, new, strict=True)))
    world.space.write(path, content := encode_rows(new), world.now_ms)
    world.reader.forget(path)
    if path in world.model.landed:
        entry = world.space.entry(path)
        assert entry is not None
        like_delta = world.model.landed[path].like_delta
        world.model.landed[path] = Landed(entry.ident, content, entry.modified_ms, like_delta)
    return f"{path} is written again"


def change(world: World, chance: Chance) -> str:
    """A writer or a producer changes rows."""
    return chance.choice((write, rewrite_in_place))(world, chance)


def _live_files(world: World) -> set[str]:
    """The files of the latest versions."""
    latest = ((place, world.reader.latest(place)) for place in world.model.tables)
    return {path for place, state in latest for path in world.reader.paths(place, state)}


def _lose(world: World, chance: Chance) -> str:
    place = random_table(world, chance)
    found = sorted(world.reader.paths(place, Writer(world, place).state))
    found = [path for path in found if world.space.entry(path) and path.endswith(".parquet")]
    if not found:
        raise SkippedError("no file")
    path = chance.choice(found)
    world.model.lose(path)
    world.space.delete(path)
    return f"somebody deletes {path}"


def _pass(world: World, chance: Chance) -> str:
    """Time passes, sometimes with a job that writes or, during a run, vacuums each night."""
    ms = chance.choice(_PASSING)
    world.pass_time(ms)
    if world.model.tables and chance.random() < (0.7 if world.run is None else 0.3):
        world.say((write if world.run is None else _vacuum_by_spark)(world, chance))
    return f"{ms / DAY_MS:.3g} days passed"


def _copy(world: World, chance: Chance) -> None:
    place = _place_of_run(world, chance) or chance.choice(_self_contained(world))
    target, how = (
        world.new_name("copy"),
        chance.choice(("links", "links", "files", "data alone", "data alone")),
    )
    keeps_times = how == "links" or chance.random() < 0.5
    for name in world.space.files(place):
        if how == "data alone" and name.startswith(("_", ".")):
            continue
        when = None if keeps_times else world.now_ms
        world.space.copy_file(f"{place}/{name}", f"{target}/{name}", when, link=how == "links")
    world.places.append(target)
    world.copies.add(target)
    world.model.copy(place, target, with_log=how != "data alone")
    world.say(f"{place} is copied to {target}: {how}")
    if how == "data alone" and not world.runs and chance.random() < 0.5:
        world.take("convert", chance.getrandbits(32))  # who has no log may want one


def _move(world: World, chance: Chance) -> str:
    places = folders(world)
    back = [o for o, new in world.moved.items() if new in places and o not in world.seconds]
    place, target = chance.choice(places), world.new_name("moved")
    if back and chance.random() < 0.6:
        target = chance.choice(back)
        place = world.moved[target]
    world.space.move(place, target)
    world.rename(place, target)
    if chance.random() < 0.3:
        world.space.add_address(place, target)
        world.seconds[place] = target
        return f"{place} is renamed to {target}, and its old address leads there"
    return f"{place} is renamed to {target}"


def add_address(world: World, chance: Chance) -> str:
    place = _place_of_run(world, chance) or chance.choice(folders(world))
    name = world.new_name("also")
    world.space.add_address(name, place)
    world.seconds[name] = place
    return f"{name} is another address of {place}"


def _place_of_run(world: World, chance: Chance) -> str | None:
    """Sometimes the place of the run in progress, unless it is a shallow clone."""
    place = world.run.place if world.run is not None and chance.random() < 0.8 else None
    return None if place in world.shallow else place


def folders(world: World) -> list[str]:
    """Places with files, tables or not."""
    return [place for place in world.places if world.space.files(place)]


def _self_contained(world: World) -> list[str]:
    """Places whose logs name no files elsewhere: copies of others are nobody's concern."""
    found = [place for place in folders(world) if place not in world.shallow]
    if not found:
        raise SkippedError("no place")
    return found


STEPS: Final[Mapping[str, tuple[int, Take]]] = {
    "write": (16, write),
    "alter": (6, _alter),
    "land": (7, _land),
    "rewrite in place": (7, rewrite_in_place),
    "lose": (3, _lose),
    "pass": (24, _pass),
    "copy": (5, _copy),
    "move": (6, _move),
    "add address": (4, add_address),
    "vacuum by spark": (3, _vacuum_by_spark),
}
