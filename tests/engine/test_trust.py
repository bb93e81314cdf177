"""Code and files of others: no cache folder or file that another user could change is used."""

import os
from pathlib import Path

import pytest

from sluice.engine.cache import CacheError, cache_folder, use
from sluice.engine.sealed_file import read_sealed, seal, write_sealed
from sluice.engine.trust import UntrustedError, check_folder

ANOTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")


def sealed(folder: Path, name: str = "x.so") -> Path:
    path = folder / name
    write_sealed(path, b"contents", ".compiling-")
    return path


def test_a_sealed_file_reads_as_it_was_written_and_is_this_users_alone(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    assert use(path) == b"contents" and path.stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")) == ["x.so"]


@pytest.mark.parametrize("size", range(0, 56, 5))
def test_a_file_that_was_cut_is_not_used(tmp_path: Path, size: int) -> None:
    path = sealed(tmp_path)
    os.truncate(path, size)
    assert use(path) is None


@pytest.mark.parametrize("at", [0, 7, 8, 16, 24, 55])
def test_a_file_with_a_changed_byte_is_not_used(tmp_path: Path, at: int) -> None:
    path = sealed(tmp_path)
    contents = bytearray(path.read_bytes())
    contents[at] ^= 1
    path.write_bytes(contents)
    assert use(path) is None


def test_links_fifos_and_folders_are_not_read(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    (tmp_path / "link.so").symlink_to(path)
    os.mkfifo(tmp_path / "fifo.so")
    (tmp_path / "folder.so").mkdir()
    for name in ("link.so", "fifo.so", "folder.so"):
        assert use(tmp_path / name) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    path = sealed(tmp_path)
    path.chmod(mode)
    assert read_sealed(path) is None


@as_root
def test_a_file_of_another_user_is_not_used(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    os.chown(path, ANOTHER, ANOTHER)
    assert read_sealed(path) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_cache_folder_that_others_can_write_is_refused(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("SLUICE_CACHE", str(folder))
    with pytest.raises(CacheError, match="only you can change"):
        cache_folder()
    monkeypatch.delenv("SLUICE_CACHE")
    for variable in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(folder))
    if not mode & 0o1000:  # in a folder like /tmp, one of our own is safe
        assert folder not in cache_folder().parents


def test_a_folder_that_another_user_could_rename_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared" / "own").mkdir(parents=True)
    (tmp_path / "shared" / "own").chmod(0o700)
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(UntrustedError, match="shared can be written"):
        check_folder(tmp_path / "shared" / "own")
    (tmp_path / "shared").chmod(0o1777)
    check_folder(tmp_path / "shared" / "own")


@as_root
@pytest.mark.parametrize("variable", ["SLUICE_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_a_cache_below_another_users_folder_is_not_used(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    (theirs / ".cache" / "sluice").mkdir(parents=True)
    (theirs / "sluice").mkdir()
    os.chown(theirs, ANOTHER, ANOTHER)
    for name in ("SLUICE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(theirs / "sluice" if variable == "SLUICE_CACHE" else theirs))
    if variable == "SLUICE_CACHE":
        with pytest.raises(CacheError, match="belongs to another user"):
            cache_folder()
    else:
        assert theirs not in cache_folder().parents


def test_a_cache_folder_that_is_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "link"))
    with pytest.raises(CacheError, match="symbolic link"):
        cache_folder()
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "link" / "below"))  # a home may be a link of its owner's
    assert cache_folder().is_dir()


@as_root
def test_a_link_of_another_users_is_not_followed_anywhere_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.lchown(tmp_path / "link", ANOTHER, ANOTHER)
    with pytest.raises(UntrustedError, match="link belongs to another user"):
        check_folder(tmp_path / "link" / "below")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises((UntrustedError, OSError)):
        check_folder(tmp_path / "a" / "c")


def test_sealing_does_not_change_the_contents(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(b"\x7fELF")
    seal(path)
    assert path.read_bytes()[:4] == b"\x7fELF" and read_sealed(path) == b"\x7fELF"
