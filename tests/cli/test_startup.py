"""How commands load Arrow, in processes of their own."""

from pathlib import Path

from tests.cli.conftest import RunCli
from tests.support.history_logs import write_log


def test_a_list_of_commits_as_json_needs_no_arrow(tmp_path: Path, process: RunCli) -> None:
    write_log(tmp_path, 3)
    program = (
        "import sys; from deltactl.cli.app import run; code = run(sys.argv[1:]); "
        "print(code, 'pyarrow' in sys.modules, 'pandas' in sys.modules, file=sys.stderr)"
    )
    arguments = ("describe-history", str(tmp_path), "--limit", "2", "-o", "json")
    assert process("-c", program, *arguments).err.splitlines()[-1] == "0 False False"
