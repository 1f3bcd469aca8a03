"""One process at a time on a directory, and none that is dead in the way."""

import multiprocessing
import os
import signal

import pytest
from filelock import FileLock

from pellucid.locks import BusyError, exclusively, in_turn


def hold(folder, held):
    with exclusively(folder, "pretrain"):
        held.set()
        signal.pause()


def test_a_second_process_is_refused_until_the_first_ends_however_it_ends(tmp_path):
    start = multiprocessing.get_context("spawn")
    held = start.Event()
    first = start.Process(target=hold, args=(tmp_path, held), daemon=True)
    first.start()
    assert held.wait(60)
    with (
        pytest.raises(BusyError, match=rf"another process runs `pellucid pretrain` on {tmp_path}"),
        exclusively(tmp_path, "pretrain"),
    ):
        pass
    with exclusively(tmp_path, "evaluate"):  # other work may go on beside it
        pass
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    with exclusively(tmp_path, "pretrain"):
        pass


def test_it_is_given_back_after_an_error(tmp_path):
    with pytest.raises(KeyError), exclusively(tmp_path, "pretrain"):
        raise KeyError
    with exclusively(tmp_path, "pretrain"):
        pass


def test_where_the_file_system_has_no_locks_work_goes_on(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError("this file system has no flock")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    done = []
    with exclusively(tmp_path, "pretrain"), in_turn(tmp_path / "a.lock", "decodes"):
        done.append(True)
    assert done
