"""Arrays from files that nobody vouches for: the right array or one sentence, in bounded memory."""

import io
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from stitchflow._files.archive import Archive

X = np.arange(12.0).reshape(4, 3)


def archive(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + content


def declared(shape: str, kind: str = "<f8", content: bytes = b"") -> bytes:
    words = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    return zipped({"x.npy": npy(words, content)})


def peak(source: bytes) -> int:
    """Most bytes held while the archive is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"declare|readable"):
            Archive(source).all()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_numpy_writes_comes_back(tmp_path):
    names = np.array(["a", "<b>"])
    np.savez(tmp_path / "a.npz", x=X, names=names, fortran=np.asfortranarray(X), empty=X[:0])
    found = Archive(tmp_path / "a.npz").all()
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["fortran"], X)
    assert found["names"].tolist() == ["a", "<b>"]
    assert found["empty"].shape == (0, 3)


@pytest.mark.parametrize(
    "shape",
    ["(1000000000,)", "(4294967296, 4294967296)", "(9223372036854775807,)", "(-1, -12)", "(11,)"],
)
def test_a_declared_size_that_is_not_there_is_never_allocated(shape):
    assert peak(declared(shape, content=X.tobytes())) < 2**20


def test_numbers_of_no_width_are_refused():
    assert peak(declared("(1000000000000,)", "<U0")) < 2**20


def test_a_bomb_is_refused_before_it_unpacks():
    size = 2**29
    header = npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size - 128},), }}")
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(header) + packer.compress(bytes(2**20)) + packer.flush()
    source = bytearray(zipped({"x.npy": packed}, zipfile.ZIP_STORED))
    # Say that the member is deflated, and unpacks to half a gigabyte.
    for offset, place in ((0, 8), (source.index(b"PK\x01\x02"), 10)):
        source[offset + place : offset + place + 2] = (8).to_bytes(2, "little")
        where = offset + place + 14
        source[where : where + 4] = size.to_bytes(4, "little")
    assert peak(bytes(source)) < 2**20


def test_pickles_are_refused():
    buffer = io.BytesIO()
    np.savez(buffer, x=np.array([{}], object))
    with pytest.raises(ValueError, match="pickled objects, which are refused"):
        Archive(buffer.getvalue())["x"]


def test_names_that_lead_elsewhere_are_only_names(tmp_path):
    one = io.BytesIO()
    np.save(one, X)
    path = tmp_path / "inside" / "a.npz"
    path.parent.mkdir()
    path.write_bytes(zipped({"../../up.npy": one.getvalue(), "/abs.npy": one.getvalue()}))
    found = Archive(path).all()
    np.testing.assert_array_equal(found["../../up"], X)
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"", "not a readable .npz file"),
        (b"PK\x05\x06" + bytes(18), "no array 'x'; the file holds nothing"),
        (zipped({"x.npy": b"text"}), "magic string"),
        (zipped({"x.npy": npy("()")}), "not a readable .npz file"),
        (zipped({"x.npy": npy("(" * 100)}), "not a readable .npz file"),
        (zipped({"x.npy": npy("{}", version=b"\x09\x00")}), "of another version"),
        (zipped({"x.npy": npy("{}")}, zipfile.ZIP_LZMA), "packed in another way"),
        (zipped({"x.npy": b"1", "x": b"2"}), "two arrays of one name"),
    ],
)
def test_what_is_no_archive_of_arrays_is_refused(source, words):
    with pytest.raises(ValueError, match=words):
        Archive(source)["x"]


def test_no_flipped_bit_goes_unnoticed():
    source = archive(x=X, t=np.arange(4.0))
    for place in range(len(source)):
        damaged = bytearray(source)
        damaged[place] ^= 1 << place % 8
        try:
            found = Archive(bytes(damaged)).all()
        except ValueError:
            continue
        for name, array in found.items():
            if name in ("x", "t"):
                np.testing.assert_array_equal(array, {"x": X, "t": np.arange(4.0)}[name])
