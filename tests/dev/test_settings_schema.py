"""The schema of ``deltactl.toml`` refuses what the program refuses, and no more."""

import tomllib

import pytest

from tests.support.json_schema import problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs = 3\nquiet = true\nmax-requests-per-second = 100", None),
        ("[optimize]\nmax-deleted-rows-ratio = 0.5\nmin-input-files = 2", None),
        ('[maintain]\nbudget = ["20GiB", "30min"]\ncluster-columns = "a"', None),
        ('[profiles.x]\ntables = ["*"]\n[profiles.x.vacuum]\nmode = "full"', None),
        ("[catalog.uc]\nallow-http = true", None),
        ("[optimize]\nyes = true", "$.optimize: yes is not in the schema"),
        ("[optimize]\nmax-files = 3", "$.optimize: max-files is not in the schema"),
        ("[optimize]\ntarget-size = 128", "$.optimize.target-size: 128 is not string"),
        ("min-input-files = 0", "$.min-input-files: 0 is less than 1"),
        ("max-deleted-rows-ratio = 2", "$.max-deleted-rows-ratio: 2 is more than 1"),
        ('output = "xml"', "$.output: 'xml' is none of"),
        ('[profiles.x]\nengine = "local"', "$.profiles.x: tables is missing"),
    ],
)
def test_settings(text: str, problem: str | None) -> None:
    found = problems(tomllib.loads(text), "settings.json")
    assert found == [] if problem is None else found[0].startswith(problem)
