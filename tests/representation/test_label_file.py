"""Labels in a file of their own."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.representation.label_file import read_labels
from pellucid.run import RunError

CATS = ([1, 0, -1, 1], ("cat", "dog"))
DIGITS = ([1, 0, -1, 2], ("0", "1", "2"))


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_bytes(content.encode())
    elif name.endswith(".npy"):
        np.save(path, content)
    elif name.endswith(".npz"):
        np.savez(path, **content)
    else:
        pq.write_table(pa.table(content), path)
    return path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.npy", np.array([1, 0, -1, 2]), DIGITS),
        ("a.npy", np.array([1, 0, np.nan, 2]), DIGITS),
        ("a.npy", np.array(["dog", "cat", "", "dog"]), CATS),
        ("a.npz", {"labels": np.array([1, 0, -1, 1]), "classes": np.array(["cat", "dog"])}, CATS),
        ("a.npz", {"y": np.array([1, 0, -1, 2])}, DIGITS),
        ("a.txt", "dog\ncat\n\ndog\n", CATS),
        ("a.txt", "dog\r\ncat\r\n\r\ndog", CATS),
        ("a.txt", "\ufeff1\n0\n-1\n2\n", DIGITS),
        ("a.csv", "1\n0\n\n2\n", DIGITS),
        ("a.csv", "label\ndog\ncat\n\ndog\n", CATS),
        ("a.csv", "id,label\n7,dog\n8,cat\n9,\n9,dog\n", CATS),
        ("a.tsv", "label\tid\n1\t0\n0\t0\n-1\t0\n2\t0\n", DIGITS),
        ("a.parquet", {"label": ["dog", "cat", None, "dog"]}, CATS),
        ("a.parquet", {"other": list("abcd"), "labels": [1, 0, None, 2]}, DIGITS),
    ],
)
def test_one_class_an_image(
    tmp_path: Path, name: str, content: object, expected: tuple[list[int], tuple[str, ...]]
) -> None:
    labels, classes = read_labels(written(tmp_path, name, content), 4)
    assert (labels.tolist(), classes) == expected


def test_a_comma_and_a_line_break_in_quotes(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", 'label\n"hot, dog"\n"a\nb"\n')
    assert read_labels(path, 2)[1] == ("a\nb", "hot, dog")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_with_names_is_matched_by_name(tmp_path: Path, ending: str) -> None:
    names = ["x/1.png", "x/\udcff.png", "y,2.png"] if ending == "parquet" else ["1", "2", "y,2"]
    files, labels = [names[2], "unused", *names[:2]], ["bird", "cat", "dog", "cat"]
    if ending == "csv":
        rows = [f'"{f}",{label}' for f, label in zip(files, labels, strict=True)]
        path = written(tmp_path, "a.csv", "\n".join(["file,label", *rows]))
    else:
        coded = [name.encode("utf-8", "surrogateescape") for name in files]
        path = written(tmp_path, "a.parquet", {"file": coded, "label": labels})
    found, classes = read_labels(path, 3, names)
    assert [classes[i] for i in found] == ["dog", "cat", "bird"]
    with pytest.raises(RunError, match="has no label for 1 images, first 'z'; its names are such"):
        read_labels(path, 4, [*names, "z"])
    with pytest.raises(RunError, match="has 4 labels for 3 images"):
        read_labels(path, 3)  # without names they are in order


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.txt",
            "dog\ncat\n",
            "a.txt has 2 labels for 4 images: there must be one each, in their",
        ),
        ("a.txt", "", "has 0 labels for 4 images"),
        ("a.txt", "1\n0\n-2\n1\n", "holds -2, and no class is named"),
        ("a.csv", "a,b\nc,d\ne,f\ng,h\n", "several columns: name that of the classes label"),
        ("a.csv", "id,label\n1,a\n2\n3,b\n4,c\n", "line 3 has not the 2 cells of the first line"),
        ("a.csv", 'label\n"a\n', "is no table"),
        ("a.npy", np.zeros((4, 2)), r"has shape \[4, 2\]: labels are one class an image"),
        ("a.npy", np.array([None, "a"], dtype=object), "holds Python objects, which are not read"),
        ("a.npz", {"z": np.zeros(4)}, "has no array labels; there is z"),
        ("a.parquet", {"z": [1, 2]}, "has no column label; there is z"),
        ("a.json", "[1]", r"ends in \.json: labels are \.npy"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, content: object, words: str) -> None:
    with pytest.raises(RunError, match=words):
        read_labels(written(tmp_path, name, content), 4)


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no .*none\.txt: labels are a \.npy"):
        read_labels(tmp_path / "none.txt", 4)
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\n")
    with pytest.raises(RunError, match=r"a\.txt cannot be read .*: save it as UTF-8 text"):
        read_labels(tmp_path / "a.txt", 1)
