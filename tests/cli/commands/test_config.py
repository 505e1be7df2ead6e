"""Settings: their order, files and profiles, and what ``deltactl config`` says of them."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from deltactl.cli.app import build_group
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.options.declared import declared_options
from deltactl.cli.settings.file import find_config_files, load_config_file
from deltactl.cli.settings.patterns import matches_table
from deltactl.errors import UsageError
from deltactl.operations.maintain.policy import MaintainPolicy
from tests.cli.conftest import RunCli, Shown
from tests.cli.test_help import SHOWN, doc_of
from tests.support.table_builder import Column, TableBuilder

NAMES = [spec.name for spec in COMMANDS]
Settings = Callable[..., dict[str, Shown]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose files of settings count, and nobody else's."""
    monkeypatch.delenv("DELTACTL_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    work = tmp_path / "work" / "jobs"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def make_table(path: Path, properties: dict[str, str]) -> TableBuilder:
    path.mkdir(parents=True)
    return TableBuilder(path, [Column("id")], properties=properties)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_nearest_source_of_a_setting_wins(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = write(
        folder.parents[1] / "xdg/deltactl/deltactl.toml", 'memory = "1GiB"\ncodec = "gzip"'
    )
    near = write(folder.parent / "deltactl.toml", 'memory = "2GiB"\nmax-bytes = "2GiB"')
    monkeypatch.setenv("DELTACTL_MAX_BYTES", "3GiB")
    table = folder / "t"
    make_table(
        table, {"delta.targetFileSize": "4194304", "delta.parquet.compression.codec": "zstd"}
    )
    shown = settings(str(table), "--command", "optimize")
    assert shown["max-bytes"] == ("3GiB", "environment", "DELTACTL_MAX_BYTES")
    assert shown["memory"] == ("2GiB", "file", str(near))
    assert shown["codec"] == ("gzip", "file", str(users))
    assert shown["target-size"] == ("4194304", "table property", "delta.targetFileSize")
    assert shown["verify"] == ("counts", "default", "")
    assert shown["master"] == ("local[*]", "default", "")


def test_on_a_screen_of_80_columns_files_and_sections_are_whole(cli: RunCli, folder: Path) -> None:
    far = folder.parents[1] / "xdg/deltactl/deltactl.toml"
    write(far, "[optimize]\nmax-deleted-rows-ratio = 0.1")
    write(folder / "deltactl.toml", "jobs = 3\n[optimize]\nmax-bytes = '2GiB'\ncodec = 'gzip'")
    lines = cli("config", "--command", "optimize").out.splitlines()
    rows = [line for line in lines if line.startswith("optimize ")]
    assert all(len(line) <= 80 for line in rows)
    found = {line.split()[1]: line.split()[-1] for line in rows if line.endswith("]")}
    assert (found["max-bytes"], found["codec"]) == ("[2]", "[2]")
    assert (found["max-deleted-rows-ratio"], found["jobs"]) == ("[1]", "[3]")
    assert lines[-4:] == [
        "",
        f"[1] {far}: [optimize]",
        "[2] deltactl.toml: [optimize]",
        "[3] deltactl.toml",
    ]


@pytest.mark.parametrize(
    ("args", "environ", "target"),
    [
        ([], None, 64 << 20),
        ([], "32MiB", 32 << 20),
        (["--target-size", "16MiB"], "32MiB", 16 << 20),
    ],
)
def test_a_run_follows_the_settings(
    cli: RunCli,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    environ: str | None,
    target: int,
) -> None:
    write(
        folder / "deltactl.toml",
        'output = "json"\n[optimize]\ntarget-size = "128MiB"\nmin-input-files = 7\n'
        '[profiles.mine]\ntables = ["*/small/*"]\nengine = "local"\n'
        '[profiles.mine.optimize]\ntarget-size = "64MiB"\n',
    )
    if environ:
        monkeypatch.setenv("DELTACTL_TARGET_SIZE", environ)
    make_table(folder / "small" / "t", {})
    ran = cli("optimize", "small/t", "--dry-run", *args)
    assert ran.result["target_size_bytes"] == target


def test_a_table_that_no_profile_matches_gets_the_rest(settings: Settings, folder: Path) -> None:
    write(
        folder / "deltactl.toml",
        '[optimize]\ntarget-size = "128MiB"\n'
        '[profiles.mine]\ntables = ["/elsewhere/*"]\n[profiles.mine.optimize]\ncodec = "gzip"\n',
    )
    shown = settings("optimize")
    assert (shown["target-size"].value, shown["codec"].origin) == ("128MiB", "default")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target-sise = '1GiB'", "there is no setting 'target-sise'. Did you mean 'target-size'?"),
        ("[optimise]\nmemory = '1GiB'", "there is no setting 'optimise'. Did you mean 'optimize'?"),
        ("[optimize]\nyes = true", "there is no setting 'optimize.yes'"),
        ("[vacuum]\nretian = '7d'", "there is no setting 'vacuum.retian'. Did you mean 'retain'?"),
        ("optimize = 3", "optimize is a section, not a setting"),
        ("memory = {a = 1}", "memory is neither a string nor a list of strings"),
        ("[profiles.x]\nengine = 'local'", "section [profiles.x] has no list of table patterns"),
        ("[profiles.x]\ntables = ['*']\nmemry = '1'", "Did you mean 'memory'?"),
        ("memory = ", "not valid TOML"),
        ("[maintain]\nwindow = '6h'", "there is no setting 'maintain.window' any more"),
        ("[optimize]\ntarget-size = 128", "optimize.target-size: size '128' has no unit"),
        ("[optimize]\nskip-hot = 'soon'", "optimize.skip-hot: "),
        ("[optimize]\nmin-input-files = 0", "optimize.min-input-files: "),
        ("[optimize]\nverify = 'ful'", "Did you mean 'full'?"),
        ("output = 'xml'", "output: 'xml' is not possible"),
        ("[optimize]\ncommit-every = ['10min', 'x']", "optimize.commit-every: "),
    ],
)
def test_what_is_wrong_in_a_file_is_reported_with_its_place(
    cli: RunCli, folder: Path, text: str, message: str
) -> None:
    path = write(folder / "deltactl.toml", text)
    ran = cli("optimize", "t", "--dry-run")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {path}: ")
    assert message in ran.err


def test_a_file_may_begin_with_a_byte_order_mark(settings: Settings, folder: Path) -> None:
    write(folder / "deltactl.toml", "\ufeff[optimize]\ntarget-size = '2MiB'\n")
    assert settings("optimize")["target-size"][0] == "2MiB"


@pytest.mark.parametrize(
    "place", ["[optimize]", "[profiles.x]\ntables = ['a']\n[profiles.x.optimize]"]
)
def test_a_setting_in_the_section_of_another_command_is_an_error(
    cli: RunCli, folder: Path, place: str
) -> None:
    write(folder / "deltactl.toml", f"{place}\nmax-files = 3")
    for args in (["optimize", "t", "--dry-run"], ["config"]):
        ran = cli(*args)
        assert ran.code == 2
        assert "optimize.max-files'. Did you mean 'max-bytes'?" in ran.err


def test_a_property_that_is_ignored_is_not_shown_as_used(
    cli: RunCli, settings: Settings, folder: Path
) -> None:
    wrong = {
        "delta.targetFileSize": "1 MBytes",
        "delta.parquet.compression.codec": "lzo",
        "delta.checkpointInterval": "abc",
    }
    make_table(folder / "t", wrong).append([{"id": 1}], [{"id": 2}])
    shown = settings("t", "--command", "optimize")
    assert (shown["target-size"].origin, shown["codec"].origin) == ("default", "default")
    said = {
        key: f"the table property {key} is ignored: {reason}. Correct it with "
        "`deltactl alter t --set KEY=VALUE`"
        for key, reason in {
            "delta.targetFileSize": "'1 MBytes' is not a size",
            "delta.parquet.compression.codec": "deltactl cannot write the codec 'lzo'",
            "delta.checkpointInterval": "'abc' is not a whole number",
        }.items()
    }
    size, codec, interval = said.values()
    ran = cli("config", "t", "--command", "optimize")
    assert ran.err == f"warning: {size}\nwarning: {codec}\n"
    assert cli("optimize", "t", "-o", "json").document["warnings"] == [size, codec, interval]
    assert cli("checkpoint", "t", "--check", "-o", "json").document["warnings"] == [interval]
    make_table(folder / "other", {})
    for tables, start in ((["t"], ""), (["t", "other"], "t: ")):
        lines = cli("maintain", *tables, "--dry-run").err.splitlines()
        assert lines == [f"warning: {start}{text}" for text in (size, interval)]


@pytest.mark.parametrize("command", [["config", "--command", "optimize"], ["optimize", "t"]])
def test_a_wrong_codec_is_an_error_with_its_place(
    cli: RunCli, folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    path = write(folder / "deltactl.toml", '[optimize]\ncodec = "zstd:99"')
    ran = cli(*command)
    assert ran.code == 2
    assert f"{path}: optimize.codec: level 99 of the codec zstd is not between" in ran.err
    monkeypatch.setenv("DELTACTL_CODEC", "lz9")
    ran = cli(*command)
    assert ran.code == 2
    assert "DELTACTL_CODEC: the codec 'lz9' is not NAME or NAME:LEVEL" in ran.err


def test_a_setting_of_another_command_is_left_out_of_account(cli: RunCli, folder: Path) -> None:
    write(folder / "deltactl.toml", '[vacuum]\nretain = "30d"\n')
    make_table(folder / "t", {})
    assert cli("optimize", "t", "--dry-run").code == 0


@pytest.mark.parametrize("args", [["--check"], ["--repair"], ["--repair", "--check"]])
def test_a_setting_is_no_option_that_does_not_go_together(
    cli: RunCli, folder: Path, args: list[str]
) -> None:
    write(folder / "deltactl.toml", '[checkpoint]\nkind = "classic"\ncompat = "plain"\n')
    make_table(folder / "t", {})
    assert cli("checkpoint", "t", *args).code == 0
    assert cli("checkpoint", "t", *args, "--kind", "auto").code == 2


def test_the_named_file_is_the_only_one(folder: Path) -> None:
    write(folder / "deltactl.toml", "")
    assert find_config_files({"DELTACTL_CONFIG": "/a/b"}, folder) == [Path("/a/b")]
    assert find_config_files({"HOME": "/nowhere"}, folder) == [folder / "deltactl.toml"]
    with pytest.raises(UsageError, match="/a/b: cannot be read: No such file"):
        load_config_file(Path("/a/b"), NAMES)


def test_a_user_without_a_home_directory_has_no_file(
    cli: RunCli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # without an account
    assert find_config_files({}, folder) == []
    assert cli("config").code == 0  # which also looks for a file of Databricks
    ran = cli("--install-completion")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: the home directory is not known")
    monkeypatch.setenv("HOME", str(folder))
    users = write(folder / ".config/deltactl/deltactl.toml", "")
    assert find_config_files({}, folder) == [users]


@pytest.mark.parametrize(("name", "reason"), [("none", "No such file"), ("t", "Is a directory")])
def test_the_variable_of_a_file_that_cannot_be_read_is_named(
    cli: RunCli, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    make_table(folder / "t", {})
    monkeypatch.setenv("DELTACTL_CONFIG", name)
    ran = cli("check", "t")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {name}: cannot be read: {reason}")
    assert "\nhint: Correct or unset DELTACTL_CONFIG" in ran.err


def test_a_directory_that_may_not_be_searched_is_named(
    cli: RunCli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, real = folder.parents[1] / "xdg/deltactl/deltactl.toml", Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if path == users:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    make_table(folder / "t", {})
    ran = cli("optimize", "t")
    assert (ran.code, ran.out) == (2, "")
    why = "cannot know whether this file exists: Permission denied"
    assert ran.err.startswith(f"error: {users}: {why}\nhint: Check the path and its ")
    monkeypatch.setenv("DELTACTL_CONFIG", os.devnull)
    assert cli("optimize", "t").code == 0


@pytest.mark.parametrize("place", ["deltactl.toml", "../deltactl.toml", "{users}/deltactl.toml"])
@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_settings_that_are_no_regular_file_are_refused(
    cli: RunCli, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    """They could keep files from a vacuum, such as a link to a disk that is not mounted."""
    make_table(folder / "t", {})
    path = folder / place.format(users=folder.parents[1] / "xdg/deltactl")
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to("no-disk/deltactl.toml")
    else:
        (Path.mkdir if kind == "directory" else os.mkfifo)(path)
    ran = cli("vacuum", "t", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert ("leads to no file" if kind == "link" else "not a regular file") in ran.err
    monkeypatch.setenv("DELTACTL_CONFIG", os.devnull)
    assert cli("vacuum", "t", "--dry-run").code == 0


def test_the_directory_of_the_users_file_may_not_be_a_dangling_link(
    cli: RunCli, folder: Path
) -> None:
    make_table(folder / "t", {})
    users = folder.parents[1] / "xdg/deltactl"
    users.parent.mkdir(exist_ok=True)
    users.symlink_to("no-disk")
    ran = cli("vacuum", "t", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert f"the symbolic link {users} leads to no file" in ran.err
    assert find_config_files({"HOME": "/dev/null"}, folder) == []


def test_a_nearer_file_hides_a_wrong_one_above(folder: Path) -> None:
    (folder.parent / "deltactl.toml").mkdir()
    near = write(folder / "deltactl.toml", "")
    assert find_config_files({"HOME": "/nowhere"}, folder) == [near]


def test_patterns_match_tables_in_any_spelling_of_their_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    matches = partial(matches_table, folder=Path("/etc"))
    assert matches([f"{tmp_path}/*"], "some/table/")
    assert matches(["some/*"], "some/table")
    assert matches(["s3://lake/*"], "s3://lake/a/b/")
    assert not matches(["/lake/*"], "s3://lake/a")
    assert matches(["s3a://lake/*"], "S3://lake/a")
    (tmp_path / "t x").mkdir()
    (tmp_path / "link").symlink_to("t x")
    (tmp_path / "here").symlink_to(tmp_path)
    spellings = (
        "t x", f"{tmp_path}/t x", f"{tmp_path}/t x/", f"{tmp_path}/../{tmp_path.name}/t x",
        f"/{tmp_path}/t x", f"file:{tmp_path}/t%20x", f"file://{tmp_path}/t%20x", "link",
        f"{tmp_path}/here/t x",
    )  # fmt: skip
    for pattern in (*spellings, f"{tmp_path}/t*", f"{tmp_path}/here/t*"):
        for table in spellings:
            assert matches([pattern], table), (pattern, table)
        assert not matches([pattern], "other")
        assert not matches([pattern], "file://host/t x")


@pytest.mark.parametrize("place", [".", "lake", "elsewhere"])
@pytest.mark.parametrize("table", ["archive/t", "{0}/lake/archive/t", "{0}/link/archive/t"])
def test_a_relative_pattern_is_one_of_the_directory_of_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, table: str
) -> None:
    for name in ("lake", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("lake")
    monkeypatch.chdir(tmp_path / place)
    content = '[profiles.old]\ntables = ["archive/*"]\n[profiles.old.maintain]\nretain = "90d"\n'
    path = write(tmp_path / "lake/policy.toml", content)
    for spelling in (path, Path(os.path.relpath(path))):
        file = load_config_file(spelling, NAMES)
        assert file.has_in_profile("old", table.format(tmp_path))
        assert not file.has_in_profile("old", f"{tmp_path}/lake/archived/t")


@pytest.mark.parametrize("place", [".", "env[prod]", "elsewhere"])
@pytest.mark.parametrize("table", ["lake/t", "{0}/env[prod]/lake/t", "{0}/link/lake/t"])
@pytest.mark.parametrize("pattern", ["lake/*", "./lake/t", "{0}/env[prod]/lake/*", "~/lake/t"])
def test_a_directory_whose_name_is_a_pattern_is_taken_literally(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, table: str, pattern: str
) -> None:
    folder = tmp_path / "env[prod]"
    for path in (folder / "lake/t", tmp_path / "elsewhere"):
        path.mkdir(parents=True)
    (tmp_path / "link").symlink_to("env[prod]")
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    monkeypatch.chdir(tmp_path / place)
    found = table.format(tmp_path)
    if not Path(found).is_absolute() and place != "env[prod]":
        found = str(folder / found)
    assert matches_table([pattern.format(tmp_path)], found, folder)
    assert not matches_table([pattern.format(tmp_path)], f"{tmp_path}/other/lake/t", folder)
    assert not matches_table(["lake/*"], f"{tmp_path}/envp/lake/t", folder)


@pytest.mark.parametrize("pattern", ["/x/absent/../t*", "/x/*/../t1", "/x/./t1"])
def test_a_pattern_may_lead_up_from_a_directory_that_does_not_exist(pattern: str) -> None:
    assert matches_table([pattern], "/x/t1", Path("/etc"))


def test_a_name_that_is_a_pattern_is_also_a_pattern(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("env[12]", "env1", "env2", "env3"):
        (tmp_path / name / "t").mkdir(parents=True)
    tables = [f"{name}/t" for name in ("env[12]", "env1", "env2", "env3")]
    found = [matches_table(["env[12]/*"], table, Path("/etc")) for table in tables]
    assert found == [True, True, True, False]


def test_a_table_is_matched_once_for_all_its_settings(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    make_table(folder / "t", {})
    profiles = "".join(f'[profiles.{it}]\ntables = ["{it}"]\n' for it in "stu")
    write(folder / "deltactl.toml", profiles)
    matched: list[list[str]] = []

    def count(patterns: list[str], table: str, folder: Path) -> bool:
        matched.append(patterns)
        return matches_table(patterns, table, folder)

    monkeypatch.setattr("deltactl.cli.settings.patterns.matches_table", count)
    assert cli("vacuum", "t", "--dry-run").code == 0
    assert matched == [["s"], ["t"]]


def test_a_token_is_not_shown(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTACTL_SPARK_REMOTE", "sc://host:15002/;token=hunter2")
    assert settings()["spark-remote"].value == "sc://host:15002/;..."


def test_every_settable_option_is_one_and_none_may_do_harm() -> None:
    settings = build_group().list_settings()
    flags = {it.name for spec in SHOWN for it in doc_of(spec).options if it.option.is_settable}
    policy = {option.name for option in declared_options(MaintainPolicy)}
    assert settings == flags | policy
    harmful = {"yes", "force-retention", "include-unknown", "ignore-manifests", "purge"}
    assert not settings & (harmful | {"max-orphan-fraction", "dry-run", "check"})


@pytest.mark.parametrize("text", ["[vacuum]\ntarget-size = '1GiB'", "sise = 1", "= broken"])
def test_help_with_a_wrong_file_works(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    monkeypatch.setenv("DELTACTL_CONFIG", str(tmp_path / "wrong.toml"))
    ran = cli("config")
    assert (ran.code, "target-size" in ran.out) == (2, True)
    assert ran.err.startswith(f"error: {tmp_path}/wrong.toml: ")
    ran = cli("explain", "LOG_GAP")
    assert (ran.code, ran.out.startswith("LOG_GAP")) == (0, True)


def test_the_hint_of_a_file_that_is_no_toml_helps_without_the_documentation(
    cli: RunCli, folder: Path
) -> None:
    write(folder / "deltactl.toml", "target-size = 1GiB")
    ran = cli("optimize", "t")
    assert (ran.code, "docs/" in ran.err) == (2, False)
    assert "such as target-size = '1GiB'. `deltactl config` lists the settings." in ran.err
    assert "target-size" in cli("config").out


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("optimize", "dry-run"),
        ("optimize", "check"),
        ("optimize", "where"),
        ("maintain", "policy"),
        ("maintain", "only"),
        ("maintain", "tables-from"),
        ("maintain", "no-lease"),
    ],
)
def test_a_variable_of_an_option_that_is_no_setting_is_refused(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, option: str
) -> None:
    name = f"DELTACTL_{option.replace('-', '_').upper()}"
    monkeypatch.setenv(name, "1")
    ran = cli(command, str(tmp_path))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {name}: this option cannot be set by a variable\n")
    assert f"give --{option} on the command line" in ran.err


@pytest.mark.parametrize("name", ["DELTACTL_WHERE", "DELTACTL_TO_VERSION", "DELTACTL_POLICY"])
def test_a_variable_of_an_option_of_another_command_has_no_effect(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    ran = cli("config")
    assert (ran.code, ran.err) == (0, "")


def test_the_variable_of_an_image_for_the_version_of_the_program_has_no_effect(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DELTACTL_VERSION", "1.2")
    ran = cli("check", str(tmp_path))
    assert (ran.code, "DELTACTL_VERSION" in ran.err) == (1, False)


def test_a_misspelled_variable_is_a_warning(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DELTACTL_TRAGET_SIZE", "1GiB")
    monkeypatch.setenv("DELTACTL_RETAIN", "30d")  # of another command
    monkeypatch.setenv("DELTACTL_ZZZ", "of another program")
    said = "no setting has the variable DELTACTL_TRAGET_SIZE. Did you mean DELTACTL_TARGET_SIZE?"
    for command in (["optimize", str(tmp_path)], ["config"]):
        err = cli(*command).err
        assert [line for line in err.splitlines() if "warning" in line] == [f"warning: {said}"]


@pytest.mark.parametrize(
    ("variable", "guess"),
    [
        ("DELTACTL_RETENTION", "Did you mean DELTACTL_RETAIN?"),
        ("DELTACTL_FORCE_RETENTON", "If you mean --force-retention, give it on the command line"),
        ("DELTACTL_DRYRUN", "If you mean --dry-run, give it on the command line"),
    ],
)
def test_no_variable_is_suggested_that_cannot_be_set(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, guess: str
) -> None:
    monkeypatch.setenv(variable, "1d")
    err = cli("vacuum", str(tmp_path)).err
    assert f"warning: no setting has the variable {variable}. {guess}\n" in err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DELTACTL_JOBS", "many"), ("DELTACTL_TARGET_SIZE", "12zz"), ("DELTACTL_VERIFY", "all")],
)
def test_wrong_variables_are_errors(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    ran = cli("config")
    assert (ran.code, ran.out) == (2, "")
    assert f"{variable}: " in ran.err


def test_wrong_settings_of_catalogs_are_shown_beside_the_others(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "hive-site.xml").write_text("<broken")
    write(folder / "deltactl.toml", '[catalog.uc]\ntoken = "env:NOT_SET"\n')
    for name, value in (
        ("DATABRICKS_HOST", "https://h"),
        ("DATABRICKS_CONFIG_PROFILE", "nope"),
        ("DATABRICKS_CONFIG_FILE", str(folder / "cfg")),
        ("HIVE_CONF_DIR", str(folder)),
        ("COLUMNS", "400"),
        ("AWS_ENDPOINT_URL_GLUE", "https://me:hunter2@h"),
    ):
        monkeypatch.setenv(name, value)
    ran = cli("config")
    lines = [re.split("  +", line.strip()) for line in ran.out.splitlines()]
    rows = {(line[0], line[1]): line[2:] for line in lines if len(line) > 3}
    assert ran.code == 2
    assert rows["catalog.uc", "host"][0] == "https://h"
    assert rows["catalog.uc", "profile"] == [
        f"error: {folder}/cfg has no profile 'nope'", "environment", "DATABRICKS_CONFIG_PROFILE"
    ]  # fmt: skip
    assert rows["catalog.glue", "endpoint-url"][0] == "https://...@h"
    assert "NOT_SET, which is not set" in rows["catalog.uc", "token"][0]
    assert "hive-site.xml cannot be read" in rows["catalog.hive", "conf-dir"][0]
    assert rows["optimize", "target-size"][0]


def test_what_was_changed_comes_first(cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTACTL_VERIFY", "full")
    first = cli("config").out.splitlines()[1]
    assert first.split()[:3] == ["optimize", "verify", "full"]


def test_a_command_can_be_named_instead_of_a_table(cli: RunCli) -> None:
    rows = cli("config", "vacuum").out.splitlines()[1:]
    assert {row.split()[0] for row in rows} == {"vacuum"}


def test_the_policy_of_maintain_is_among_the_settings(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "deltactl.toml", '[maintain]\nlist-files = "never"\n')
    monkeypatch.setenv("DELTACTL_CLUSTER_COLUMNS", "a")
    shown = settings("maintain")
    assert shown["list-files"] == ("never", "file", "deltactl.toml: [maintain]")
    assert shown["cluster-columns"] == ("a", "environment", "DELTACTL_CLUSTER_COLUMNS")
    assert shown["skip-hot"] == ("30min", "default", "")
    properties = {
        "delta.targetFileSize": "1kb",
        "delta.deletedFileRetentionDuration": "interval 3 days",
    }
    make_table(folder / "t", properties)
    shown = settings("t", "--command", "maintain")
    assert shown["target-size"] == ("1kb", "table property", "delta.targetFileSize")
    assert shown["retain"][1:] == ("table property", "delta.deletedFileRetentionDuration")


def test_a_time_limit_of_zero_is_refused(
    cli: RunCli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(folder / "t", {})
    assert cli("check", "t", "--timeout", "0s").err.startswith("error: --timeout must be more than")
    monkeypatch.setenv("DELTACTL_TIMEOUT", "0s")
    ran = cli("check", "t")
    assert (ran.code, ran.err) == (2, "error: DELTACTL_TIMEOUT must be more than zero\n")
