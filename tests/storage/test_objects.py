"""Objects beside the database."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from discreet.errors import Unavailable
from discreet.storage.objects import Objects
from discreet.storage.sealing import SealBroken


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_write_read_erase(scheme: str, tmp_path: Path) -> None:
    objects = Objects(f"{scheme}://{tmp_path}/a folder/objects")
    assert objects.older_than(0) == []
    objects.write("dst_1", iter([b"ab", b"c"]))
    objects.write("dst_2", iter([bytes(3_000_000)]))
    assert b"".join(objects.read("dst_1")) == b"abc"
    assert sum(map(len, objects.read("dst_2"))) == 3_000_000
    assert sorted(objects.older_than(0)) == ["dst_1", "dst_2"]
    assert objects.older_than(3600) == []
    objects.erase("dst_1")
    objects.erase("dst_1")
    assert objects.older_than(0) == ["dst_2"]
    with pytest.raises(SealBroken):
        list(objects.read("dst_1"))
    objects.erase("dst_2")


def test_age_is_that_of_the_object(tmp_path: Path) -> None:
    objects = Objects(f"file://{tmp_path}")
    for name, age in (("dst_old", 7200), ("dst_new", 1800)):
        objects.write(name, [b"x"])
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    assert objects.older_than(3600) == ["dst_old"]


def test_files_of_others_are_let_alone(tmp_path: Path) -> None:
    """What else lies in the same place is nobody's orphan: the sweep neither removes it nor
    stumbles over it."""
    objects = Objects(f"file://{tmp_path}")
    objects.write("dst_1", [b"x"])
    for name in ("notes", "README.txt", ".nfs0001", "dst_1.part"):
        (tmp_path / name).write_text("theirs")
    assert objects.older_than(0) == ["dst_1"]


def test_storage_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    objects = Objects(f"file://{tmp_path}/file")
    with pytest.raises(Unavailable):
        objects.write("dst_1", [b"x"])
    with pytest.raises(Unavailable, match="cannot be used"):
        Objects("nosuchscheme://bucket")
    for name in ("../dst_1", "a/b", ""):
        with pytest.raises(ValueError, match="name of an object"):
            Objects(f"file://{tmp_path}").write(name, [b"x"])
