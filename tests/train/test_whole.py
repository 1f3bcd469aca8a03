"""Files are whole or absent, and a failure names them."""

import errno
import resource
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file

from pellucid.train import whole
from pellucid.train.whole import whole_file, write_text


def test_a_file_that_is_interrupted_is_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    write_text(path, "früher")

    def cut(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole.os, "fsync", cut)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "later")
    assert path.read_text("utf-8") == "früher"
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def save(path):
    with whole_file(path) as temporary:
        save_file({"a": torch.zeros(5000)}, temporary)


WRITERS = {"text": lambda path: write_text(path, "a" * 20_000), "tensors": save}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_disk_that_takes_no_more_is_an_error_with_the_name_of_the_file(tmp_path, write):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match=rf"{path}") as caught:
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno in (errno.EFBIG, errno.EIO)
    assert path.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    write(path)
    assert path.stat().st_size >= 20_000


def test_a_link_in_the_place_of_the_temporary_file_is_not_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / ".file.writing").symlink_to(other)
    save(tmp_path / "file")
    assert other.read_text() == "mine"
    assert load_file(tmp_path / "file")["a"].shape == (5000,)
