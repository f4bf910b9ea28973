"""The secrets file under changes that meet, and under deaths."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from discreet import private_files
from discreet.storage import secrets
from discreet.storage.keys.opening import Keys
from discreet.storage.secrets import SecretsFile


def _rotate(path: Path, start: Any, said: Any) -> None:
    start.wait()
    said.put([secrets.rotate(path, "content"), secrets.stage(path, "jobs")])


def test_rotations_that_meet_forget_no_key(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    context = multiprocessing.get_context("fork")
    start, said = context.Event(), context.Queue()
    processes = [context.Process(target=_rotate, args=(path, start, said)) for _ in range(8)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    made = [said.get() for _ in processes]
    found = secrets.load(path)
    assert {content for content, _ in made} < set(found.content_keys)
    assert {job for _, job in made} < set(found.job_keys)


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    file = SecretsFile(path)
    load = secrets.load
    made: list[str] = []

    def slow(place: Path, keys: Keys) -> secrets.Secrets:
        found = load(place, keys)
        if len(made) < 2:
            monkeypatch.setattr(secrets, "load", load)
            made.append(secrets.rotate(place, "content"))
        return found

    secrets.rotate(path, "content")
    monkeypatch.setattr(secrets, "load", slow)
    assert file.current.content_key_id not in made
    assert file.current.content_key_id == made[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files for another user")
def test_a_death_after_the_change_leaves_the_file_to_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    os.chown(path, 65534, 65534)

    def dies(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(private_files, "sync_folder", dies)
    with pytest.raises(KeyboardInterrupt):
        secrets.rotate(path, "content")
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777) == (
        65534,
        65534,
        0o600,
    )
    assert len(secrets.load(path).content_keys) == 2
