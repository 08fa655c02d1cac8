"""Files are written whole or not at all; a folder has one writer."""

import resource
import subprocess
import sys

import pytest

from stitchflow._files.whole import (
    only_writer,
    partial_of,
    read_file,
    read_json,
    write_atomically,
    write_together,
)

HOLD = (
    "import fcntl, sys, time; file = open(sys.argv[1], 'ab'); fcntl.flock(file, fcntl.LOCK_EX); "
    "print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def full_disk():
    """No file may grow beyond a kilobyte: the system itself refuses to write more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named_and_the_old_file_kept(tmp_path, full_disk):
    path = tmp_path / "a"
    write_atomically(path, b"old")
    with pytest.raises(OSError, match=r"a cannot be written \(File too large\); what was there is"):
        write_atomically(path, bytes(10_000))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_files_neither_is_replaced_when_one_does_not_fit(tmp_path, full_disk):
    first, second = tmp_path / "first", tmp_path / "second"
    write_together({first: b"1", second: b"1"})
    with pytest.raises(OSError, match="second cannot be written"):
        write_together({first: b"2", second: bytes(10_000)})
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"1")


def test_a_link_left_in_a_folder_is_not_followed(tmp_path):
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    run = tmp_path / "run"
    run.mkdir()
    partial_of(run / "header.json").symlink_to(mine)
    (run / "header.json").symlink_to(mine)
    write_atomically(run / "header.json", b"{}")
    assert mine.read_bytes() == b"mine"
    assert (run / "header.json").read_bytes() == b"{}"


def test_a_file_called_partial_is_not_ours(tmp_path):
    mine = tmp_path / "a.partial"
    mine.write_bytes(b"mine")
    write_atomically(tmp_path / "a", b"new")
    assert mine.read_bytes() == b"mine"


def test_of_two_files_the_second_is_kept_where_it_cannot_be_renamed(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (second / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match=r"second cannot be written .*; all of it is in .*partial"):
        write_together({first: b"1", second: b"2"})
    assert (first.read_bytes(), partial_of(second).read_bytes()) == (b"1", b"2")
    with pytest.raises(OSError, match=r"second cannot be written .*; what was there is kept"):
        write_together({second: b"2", first: b"2"})
    assert first.read_bytes() == b"1"
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    (run / ".lock").symlink_to(victim)
    with pytest.raises(ValueError, match=r"run/.lock is a link"), only_writer(run):
        pass
    assert not victim.exists()


def test_a_folder_has_one_writer(tmp_path):
    refused = pytest.raises(ValueError, match="is being written by another process")
    with only_writer(tmp_path), refused, only_writer(tmp_path):
        pass
    with only_writer(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_gone(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="another process"), only_writer(tmp_path):
            pass
        holder.kill()
    with only_writer(tmp_path):
        pass


def test_what_is_no_file_is_not_read(tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("endless", "gone"):
        with pytest.raises(ValueError, match=f"{name} cannot be read: no such file"):
            read_file(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "is not JSON"), (b"\xff" * 5, "it is not text"), (b"[" * 200_000, "nested too deeply")],
)
def test_what_is_no_json_is_named(tmp_path, content, words):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_json(path)
