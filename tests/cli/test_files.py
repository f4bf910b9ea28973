"""Files that commands compare: none that two readers would read as two things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discreet.cli.files import read_json
from discreet.cli.servers import _id_of
from discreet.errors import InvalidInput


@pytest.mark.parametrize(
    "text",
    [
        b'{"result":{"cost":1},"result":{"cost":2}}',
        b'{"result":{"cost":1,"cost":1}}',
        b'{"result":NaN}',
        b'{"result":1e999}',
        b'{"result":%b}' % (b"9" * 400),
        b'{"result":"\\ud800"}',
        b"[" * 100_000 + b"]" * 100_000,
        b"[]",
        b"\xff",
    ],
)
def test_what_is_not_one_json_object_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "answer.json"
    file.write_bytes(text)
    with pytest.raises(InvalidInput, match="without duplicate keys"):
        read_json(file)


def test_what_is_compared_keeps_its_types(tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    file.write_bytes(b'{"result":{"a":1.50,"b":{"a":[1,"\\u00e9",null]}}}')
    assert read_json(file) == {"result": {"a": 1.5, "b": {"a": [1, "\xe9", None]}}}


def test_a_job_is_found_by_its_name_beside_jobs_without_one() -> None:
    """A question that was asked again has no name, and no field `name` either."""
    jobs: list[dict[str, Any]] = [{"id": "job_1"}, {"id": "job_2", "name": "Monday"}]
    assert _id_of("Monday", "job", jobs) == "job_2"
    with pytest.raises(InvalidInput, match=r"called x\. The names are: Monday \(job_2\)$"):
        _id_of("x", "job", jobs)
    with pytest.raises(InvalidInput, match="no job is called x: none has a name"):
        _id_of("x", "job", jobs[:1])
