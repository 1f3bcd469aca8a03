import io
import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pellucid.data import parquet
from pellucid.data.parquet import RowBytes, find_parquet, open_parquet
from pellucid.data.source import DataError, Source


def png(value: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (4, 4), value).save(out, "PNG")
    return out.getvalue()


def images(values: range | list[int]) -> pa.Array:
    rows = [{"bytes": png(value), "path": None} for value in values]
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def write(path: Path, names: list[str] | None = None, rows: int = 2, **columns: Any) -> None:
    """A parquet file of row groups of `rows`, with the hub's names for the column `label`."""
    table = pa.table(columns)
    if names is not None:
        features = {"label": {"_type": "ClassLabel", "names": names}, "image": {"_type": "Image"}}
        hub = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": hub})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=rows)


def source_of(root: Path, split: str = "train", **options: Any) -> Source:
    (splits,) = find_parquet(root).values()
    return open_parquet(splits, split, root, **options)


def test_shards_are_one_split_in_order(tmp_path: Path) -> None:
    names = ["cat", "dog"]
    write(tmp_path / "train-00001-of-00002.parquet", names, image=images([5, 6]), label=[1, None])
    write(
        tmp_path / "train-00000-of-00002.parquet",
        names,
        image=images(range(5)),
        label=[0, 1, 1, -1, 0],
    )
    write(tmp_path / "test-00000-of-00001.parquet", names, image=images([9]), label=[1])
    train, test = source_of(tmp_path), source_of(tmp_path, "test")
    assert [train.read(i) for i in range(7)] == [png(i) for i in range(7)]
    assert train.read(6) == png(6)
    assert train.read(0) == png(0)  # back again
    assert train.labels is not None
    assert train.labels.tolist() == [0, 1, 1, -1, 0, 1, -1]
    assert train.classes == test.classes == ("cat", "dog")
    assert train.names[4:6] == ["train-00000-of-00002.parquet:4", "train-00001-of-00002.parquet:0"]
    assert test.read(0) == png(9)
    assert train.notes == []


@pytest.mark.parametrize("name", ["test", "valid", "validation", "val"])
@pytest.mark.parametrize(
    "form",
    [
        "{}-00000-of-00001.parquet",
        "{}-00000-of-00001-3fe7cd.parquet",
        "{}.parquet",
        "{}/0000.parquet",
    ],
)
def test_the_held_out_split_is_found_by_any_name(tmp_path: Path, name: str, form: str) -> None:
    write(tmp_path / form.format("train"), image=images([1, 2]), label=[0, 1])
    write(tmp_path / form.format(name), image=images([3]), label=[1])
    assert source_of(tmp_path, "test").read(0) == png(3)
    assert len(source_of(tmp_path)) == 2


def test_a_held_out_split_with_hidden_labels_goes_last(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", image=images([1, 2]), label=[0, 1])
    write(tmp_path / "test.parquet", image=images([3]), label=[-1])
    write(tmp_path / "validation.parquet", image=images([4]), label=[1])
    assert source_of(tmp_path, "test").read(0) == png(4)


def test_one_file_without_a_split_is_held_out_from(tmp_path: Path) -> None:
    write(tmp_path / "photos.parquet", image=images(range(10)))
    train, test = source_of(tmp_path), source_of(tmp_path, "test")
    assert (len(train), len(test)) == (9, 1)
    assert train.labels is None
    whole = {train.read(i) for i in range(9)} | {test.read(0)}
    assert whole == {png(i) for i in range(10)}
    assert len(source_of(tmp_path / "photos.parquet", holdout=0.5)) == 5


def test_a_row_without_an_image_is_an_empty_one(tmp_path: Path) -> None:
    kind = images([1]).type
    rows = [None, {"bytes": None, "path": "a.png"}, {"bytes": png(2), "path": None}]
    write(tmp_path / "train.parquet", image=pa.array(rows, kind), rows=3)
    source = source_of(tmp_path, holdout=0.0)
    assert [source.read(i) for i in range(3)] == [b"", b"", png(2)]


def test_columns_are_found_by_type_and_then_by_name(tmp_path: Path) -> None:
    photos, binary = images([1, 2]), pa.array([png(3), png(4)])
    write(tmp_path / "a" / "train.parquet", anything=photos, fine_label=[1, 0], coarse_label=[0, 0])
    source = source_of(tmp_path / "a", holdout=0.0)
    assert source.labels is not None
    assert source.labels.tolist() == [1, 0]
    coarse = source_of(tmp_path / "a", holdout=0.0, label_column="coarse_label")
    assert coarse.classes == ("0",)

    write(tmp_path / "b" / "train.parquet", img=photos, thumbnail=binary, kind=[7, 7])
    source = source_of(tmp_path / "b", holdout=0.0)
    assert source.read(0) == png(1)
    assert source.classes == ("7",)
    assert source_of(tmp_path / "b", holdout=0.0, image_column="thumbnail").read(0) == png(3)

    write(tmp_path / "c" / "train.parquet", left=photos, right=photos, words=["b", "a"])
    with pytest.raises(DataError, match=r"train\.parquet.*image_column.*left.*right"):
        source_of(tmp_path / "c")
    with pytest.raises(DataError, match="no column of images"):
        source_of(tmp_path / "c", image_column="words")
    named = source_of(tmp_path / "c", image_column="left", label_column="words", holdout=0.0)
    assert named.classes == ("a", "b")
    assert named.labels is not None
    assert named.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="no column species, only left, right, words"):
        source_of(tmp_path / "c", image_column="left", label_column="species")


def test_labels_of_other_types_are_taken_as_the_classes_they_are(tmp_path: Path) -> None:
    photos = images([1, 2, 3])
    kinds = {
        "floats": (pa.array([1.0, float("nan"), 0.0]), ("0", "1"), [1, -1, 0]),
        "bools": (pa.array([True, False, None]), ("False", "True"), [1, 0, -1]),
        "categories": (pa.array(["b", "a", None]).dictionary_encode(), ("a", "b"), [1, 0, -1]),
    }
    for name, (labels, classes, numbers) in kinds.items():
        write(tmp_path / name / "train.parquet", image=photos, label=labels)
        source = source_of(tmp_path / name, holdout=0.0)
        assert source.labels is not None
        assert (source.classes, source.labels.tolist()) == (classes, numbers)
    write(tmp_path / "null" / "train.parquet", image=photos, label=pa.nulls(3))
    assert source_of(tmp_path / "null", holdout=0.0).labels is None
    for bad in (0.5, float("inf")):
        write(tmp_path / "half" / "train.parquet", image=photos, label=[0.0, 1.0, bad])
        with pytest.raises(DataError, match=rf"train\.parquet: column label holds {bad}"):
            source_of(tmp_path / "half")


def test_integers_that_are_no_classes_are_not_taken_for_them(tmp_path: Path) -> None:
    write(tmp_path / "a" / "train.parquet", image=images([1, 2]), id=[10, 11])
    write(tmp_path / "b" / "train.parquet", image=images([1, 2]), width=[4, 4], height=[4, 4])
    for folder, note in (("a", "differs in every row"), ("b", "one of width, height")):
        source = source_of(tmp_path / folder, holdout=0.0)
        assert source.labels is None
        assert note in "".join(source.notes)
        source_of(tmp_path / folder, holdout=0.0, strict=True)  # nothing is missing


def test_classes_without_names_are_numbered_alike_in_both_splits(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", image=images([1, 2]), label=[30, 20])
    write(tmp_path / "test.parquet", image=images([3, 4]), label=[30, 10])
    train, test = source_of(tmp_path), source_of(tmp_path, "test")
    assert train.classes == test.classes == ("10", "20", "30")
    assert train.labels is not None
    assert test.labels is not None
    assert train.labels.tolist() == [2, 1]
    assert test.labels.tolist() == [2, 0]


def test_a_label_beyond_the_names_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", ["a", "b"], image=images([1, 2]), label=[0, 2])
    with pytest.raises(DataError, match=r"train\.parquet: column label holds 2.*0 to 1"):
        source_of(tmp_path)


def test_missing_parts_are_noted_or_refused(tmp_path: Path) -> None:
    write(tmp_path / "train-00001-of-00003.parquet", image=images([1, 2]))
    assert "2 of 00003 parts missing: 00000, 00002" in source_of(tmp_path).notes[0]
    with pytest.raises(DataError, match="parts missing"):
        source_of(tmp_path, strict=True)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "train.parquet"
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"train\.parquet is not a whole parquet file"):
        source_of(tmp_path)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match=r"train\.parquet is a Git LFS pointer"):
        source_of(tmp_path)
    file.unlink()
    write(tmp_path / "test.parquet", image=images([1]))
    with pytest.raises(DataError, match="no train split; there is test"):
        source_of(tmp_path)


def test_a_table_that_is_a_broken_link_or_a_folder_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"train\.parquet is a broken link"):
        source_of(tmp_path)
    (tmp_path / "train.parquet").unlink()
    (tmp_path / "train.parquet").mkdir()
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / ".hidden" / "train.parquet", image=images([1]))
    assert find_parquet(tmp_path) == {}


def test_a_path_longer_than_the_system_opens_is_passed_by(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", image=images([1, 2]))
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # each made from within the one above
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert find_parquet(tmp_path) == {tmp_path: {"train": [tmp_path / "train.parquet"]}}


def test_a_damaged_column_of_labels_is_named(tmp_path: Path) -> None:
    file = tmp_path / "train.parquet"
    write(file, image=images([1, 2]), label=[0, 1])
    column = pq.read_metadata(file).row_group(0).column(2)
    assert column.path_in_schema == "label"
    data, start = bytearray(file.read_bytes()), column.dictionary_page_offset
    data[start : start + 12] = b"\xff" * 12
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"train\.parquet: column label is damaged"):
        source_of(tmp_path)


def test_a_column_of_words_here_and_numbers_there_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", image=images([1, 2]), label=[0, 1])
    write(tmp_path / "test.parquet", image=images([3, 4]), label=["a", "b"])
    with pytest.raises(DataError, match=r"column label holds words in one file and numbers"):
        source_of(tmp_path)


def test_the_reader_keeps_few_row_groups_and_serves_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "train.parquet", image=images(range(20)), rows=3)
    read = source_of(tmp_path, holdout=0.0).read
    monkeypatch.setattr(parquet, "KEPT_BYTES", 2 * 3 * len(png(0)) + 100)
    found: list[list[bytes]] = []
    threads = [
        threading.Thread(target=lambda: found.append([read(i) for i in (*range(20), 0, 19, 7)]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[png(i) for i in (*range(20), 0, 19, 7)]] * 4
    assert isinstance(read, RowBytes)
    assert 1 <= len(read._kept) <= 2
    sent = pickle.loads(pickle.dumps(read))
    assert sent(13) == png(13)
    assert len(pickle.dumps(read)) < 4000
