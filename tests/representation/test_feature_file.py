"""Features that any program wrote: what is taken, and what is refused with a reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pellucid.representation.feature_file import read_feature_file
from pellucid.run import RunError

Z = np.arange(12, dtype=np.float32).reshape(4, 3) - 4


def lists(values: np.ndarray, fixed: bool = False) -> pa.Array:
    flat = pa.array(values.reshape(-1))
    if fixed:
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    ends = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(ends), flat)


def npy(folder: Path, array: np.ndarray) -> Path:
    path = folder / "f.npy"
    np.save(path, array)
    return path


def npz(folder: Path, **arrays: Any) -> Path:
    path = folder / "f.npz"
    np.savez(path, **arrays)
    return path


def parquet(folder: Path, **columns: Any) -> Path:
    path = folder / "f.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


@pytest.mark.parametrize(
    "kind", ["<f2", "<f4", ">f4", "<f8", "i1", "<i4", ">i8"], ids=lambda kind: str(np.dtype(kind))
)
def test_every_kind_of_number_becomes_fp32(tmp_path: Path, kind: str) -> None:
    typed = Z.astype(kind)
    for path in (
        npy(tmp_path, typed),
        npy(tmp_path, np.asfortranarray(typed)),
        npz(tmp_path, z=typed),
    ):
        z = read_feature_file(path).z
        assert z.dtype == torch.float32
        assert z.is_contiguous()
        assert torch.equal(z, torch.from_numpy(Z))
    if kind[0] != ">":  # which Arrow has not
        for column in (lists(typed), lists(typed, fixed=True)):
            assert torch.equal(
                read_feature_file(parquet(tmp_path, z=column)).z, torch.from_numpy(Z)
            )


def test_bool_and_unsigned(tmp_path: Path) -> None:
    assert torch.equal(read_feature_file(npy(tmp_path, Z > 0)).z, torch.from_numpy(Z > 0).float())
    small = Z.clip(0).astype(np.uint8)
    assert torch.equal(read_feature_file(npy(tmp_path, small)).z, torch.from_numpy(Z.clip(0)))


def test_bfloat16_arrives_as_two_bytes_without_a_type(tmp_path: Path) -> None:
    numbers = torch.tensor([[1.5, -2.25, 3e38], [0.0, 1e-30, 7.0]], dtype=torch.bfloat16)
    raw = numbers.view(torch.int16).numpy().view("V2")
    assert torch.equal(read_feature_file(npy(tmp_path, raw)).z, numbers.float())


@pytest.mark.parametrize("key", ["z", "features", "embeddings", "something"])
def test_the_keys_of_an_archive(tmp_path: Path, key: str) -> None:
    h = np.ones((4, 5))
    gate = np.full((4, 3), 0.25)
    path = npz(
        tmp_path, **{key: Z}, h=h, gate=gate, ungated=Z, threshold=0.5,
        labels=np.array([0, 1, -1, 1]), classes=np.array(["cat", "dog"]),
        names=np.array([b"a", b"\xff", b"c", b"d"]),
    )  # fmt: skip
    table = read_feature_file(path)
    assert torch.equal(table.z, torch.from_numpy(Z))
    assert torch.equal(table.h, torch.ones(4, 5))
    assert torch.equal(table.gate, torch.full((4, 3), 0.25))
    assert torch.equal(table.ungated, table.z)
    assert table.threshold == 0.5
    assert (table.labels.tolist(), table.classes) == ([0, 1, -1, 1], ("cat", "dog"))
    assert table.names == ["a", "\udcff", "c", "d"]
    assert table.notes == ([] if key == "z" else [f"z is {key} of f.npz"])


def test_texts_become_sorted_classes(tmp_path: Path) -> None:
    for labels in (np.array(["dog", "cat", "", "dog"]), np.array([b"dog", b"cat", b"", b"dog"])):
        table = read_feature_file(npz(tmp_path, z=Z, labels=labels))
        assert (table.labels.tolist(), table.classes) == ([1, 0, -1, 1], ("cat", "dog"))
    known = np.array(["emu", "dog", "cat"])
    table = read_feature_file(npz(tmp_path, z=Z, labels=labels, classes=known))
    assert (table.labels.tolist(), table.classes) == ([1, 2, -1, 1], ("emu", "dog", "cat"))


@pytest.mark.parametrize("column", ["z", "features", "embedding", "anything"])
def test_the_columns_of_a_table(tmp_path: Path, column: str) -> None:
    path = parquet(
        tmp_path, **{column: lists(Z)}, file=["a", "b\n", "c", "d" * 300], caption=list("wxyz"),
        label=["dog", None, "cat", "dog"], h=lists(np.ones((4, 2)), fixed=True),
    )  # fmt: skip
    table = read_feature_file(path)
    assert torch.equal(table.z, torch.from_numpy(Z))
    assert torch.equal(table.h, torch.ones(4, 2))
    assert table.names == ["a", "b\n", "c", "d" * 300]
    assert (table.labels.tolist(), table.classes) == ([1, -1, 0, 1], ("cat", "dog"))


def test_a_column_a_dimension(tmp_path: Path) -> None:
    numbers = {f"dim_{k}": Z[:, k].astype(kind) for k, kind in enumerate(("f2", "f8", "i8"))}
    frame = {"__index_level_0__": [9, 8, 7, 6]}  # as pandas writes it
    table = read_feature_file(
        parquet(tmp_path, path=list("abcd"), **numbers, label=[1.0, None, 0.0, 1.0], **frame)
    )
    assert torch.equal(table.z, torch.from_numpy(Z))
    assert (table.labels.tolist(), table.classes) == ([1, -1, 0, 1], ("0", "1"))
    assert table.names == list("abcd")
    assert table.notes == ["3 columns of numbers are the dimensions"]


def test_sparse_columns_without_metadata(tmp_path: Path) -> None:
    columns = {"z_index": [[2], [], [0, 1], [1]], "z_value": [[1.0], [], [2.0, 3.0], [4.0]]}
    table = read_feature_file(parquet(tmp_path, **columns))
    assert table.z.tolist() == [[0, 0, 1], [0, 0, 0], [2, 3, 0], [0, 4, 0]]
    assert table.notes == ["z_index says nothing of dimensions beyond 2"]
    for wrong, words in (
        ({"z_index": [[2], [], [0], [1]]}, "must hold lists of one length in every row"),
        ({"z_index": [[-1], [], [0, 1], [1]]}, "z_index holds -1; dimensions are 0 to 1"),
    ):
        with pytest.raises(RunError, match=words):
            read_feature_file(parquet(tmp_path, **columns | wrong))


def with_entry(value: float) -> np.ndarray:
    array = Z.astype(np.float64)
    array[2, 1] = value
    return array


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (Z[0], r"f\.npy has shape \[3\]: features are \[images, dimensions\]"),
        (Z[None], r"has shape \[1, 4, 3\]"),
        (Z[:0], r"has shape \[0, 3\]: .* at least one of each"),
        (Z[:, :0], r"has shape \[4, 0\]"),
        (np.float32(3), r"has shape \[\]"),
        (with_entry(np.nan), "is NaN or infinite in fp32 on 1 of 4 rows, first row 2"),
        (with_entry(-np.inf), "first row 2"),
        (with_entry(1e300), "infinite in fp32"),
        (Z.astype(complex), "holds complex128, not numbers: save it as float32"),
        (Z.astype("U8"), "holds <U8, not numbers"),
        (Z.astype("M8[s]"), r"holds datetime64\[s\], not numbers"),
        (np.zeros((2, 2), [("a", "f4")]), "not numbers"),
        (np.array([[1, "x"], [None, 2]], dtype=object), "holds Python objects, which are not read"),
    ],
)
def test_arrays_that_are_refused(tmp_path: Path, array: np.ndarray, words: str) -> None:
    path = tmp_path / "f.npy"
    np.save(path, array)
    with pytest.raises(RunError, match=words):
        read_feature_file(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"z": None}, r"no clear array of features; there is nothing"),
        ({"z": None, "a": Z, "b": Z}, r"there is a \[4, 3\], b \[4, 3\]: name one z"),
        ({"labels": np.zeros(3, int)}, "f.npz has 3 labels for 4 images: there must be one each"),
        ({"labels": np.zeros((4, 1), int)}, r"labels has shape \[4, 1\]: labels are one class"),
        ({"labels": np.array([0, -2, 1, 1])}, "labels holds -2, and no class is named: indices"),
        ({"labels": np.array([0, 10**6, 1, 1])}, "holds 1000000, and no class is named"),
        ({"labels": np.array([0, 1, 2, 1]), "classes": np.array(["a", "b"])},
         "labels holds 2, and 2 classes are named: indices are 0 to 1, or -1"),
        ({"labels": np.array(["a", "c", "a", "a"]), "classes": np.array(["a", "b"])},
         "labels holds 'c', which is none of the 2 classes named: 'a', 'b'"),
        ({"labels": np.array([0.5, 1, 1, 1])}, "holds fractions, not classes"),
        ({"labels": np.array([0, 1j, 1, 1])}, "holds complex128, not classes"),
        ({"names": np.array(["a", "b", "a", "c"])}, "names 1 images twice: 'a'; names must be un"),
        ({"names": np.array(["a", "b", "c"])}, "has 3 names for 4 images"),
        ({"h": np.ones((3, 2))}, "has 3 h for 4 images"),
        ({"gate": np.ones((4, 2))}, r"gate has shape \[4, 2\] and z \[4, 3\]"),
        ({"gate": Z}, "gate is not between 0 and 1"),
        ({"threshold": 7.0}, "threshold is no probability"),
        ({"names": np.array([None, 1], dtype=object)}, "holds Python objects, which are not read"),
    ],
)  # fmt: skip
def test_archives_that_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    arrays = {key: value for key, value in ({"z": Z} | changes).items() if value is not None}
    with pytest.raises(RunError, match=words):
        read_feature_file(npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"z": [[1.0], [1.0, 2.0]]}, "z has lists of 1, 2 numbers: all images have the same"),
        ({"z": [[1.0], None]}, "z has no value in 1 rows"),
        ({"z": [[1.0], [None]]}, "z has lists with missing numbers"),
        ({"z": [["a"], ["b"]]}, "not numbers"),
        ({"z": pa.array([[], []], pa.list_(pa.float32()))}, r"has shape \[2, 0\]"),
        ({"a": [[1.0], [2.0]], "b": [[1.0], [2.0]]}, r"there are a \(list<.*b \(list<.*name a col"),
        ({"a": [1.0, 2.0], "note": ["x", "y"]}, "no clear column of features"),
        ({"a": [1.0, None]}, "has missing numbers"),
        ({"file": ["x", "y"]}, "no clear column of features"),
        ({"z": [[1.0], [2.0]], "file": ["x", "x"]}, "file names 1 images twice: 'x'"),
        ({"z": [[1.0], [2.0]], "file": ["x", None]}, "file names no image in row 1"),
        (
            {"z": [[1.0], [float("nan")]]},
            "z is NaN or infinite in fp32 on 1 of 2 rows, first row 1",
        ),
        ({"z": pa.array([], pa.list_(pa.float32()))}, "holds no row"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    with pytest.raises(RunError, match=words) as refused:
        read_feature_file(parquet(tmp_path, **columns))
    assert str(tmp_path / "f.parquet") in str(refused.value)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.Table.from_arrays([lists(Z), lists(Z)], names=["z", "z"]), path)
    with pytest.raises(RunError, match="two columns of one name"):
        read_feature_file(path)


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    good = {"a.npy": npy(tmp_path, Z), "a.npz": npz(tmp_path, z=Z)}
    good |= {"a.parquet": parquet(tmp_path, z=lists(Z))}
    for name, path in good.items():
        whole = path.read_bytes()
        for content in (b"", b"hello", whole[: len(whole) // 2]):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(RunError, match=rf"{name} (cannot be read|is not a whole parquet)"):
                read_feature_file(tmp_path / name)
    (tmp_path / "b.npy").write_bytes(good["a.npz"].read_bytes())
    with pytest.raises(RunError, match=r"is an npz archive under another name: call it \.npz"):
        read_feature_file(tmp_path / "b.npy")
    (tmp_path / "b.npz").write_bytes(good["a.npy"].read_bytes())
    with pytest.raises(RunError, match=r"is one npy array under another name: call it \.npy"):
        read_feature_file(tmp_path / "b.npz")
    (tmp_path / "b.csv").write_text("1,2\n")
    with pytest.raises(RunError, match=r"ends in \.csv: features are \.npy, \.npz or \.parquet"):
        read_feature_file(tmp_path / "b.csv")
    with pytest.raises(RunError, match=r"there is no .*nothing\.npy: give a run directory"):
        read_feature_file(tmp_path / "nothing.npy")
