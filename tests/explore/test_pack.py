import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.explore.pack import LEVELS, compress, pack
from pellucid.metrics import active_entries
from pellucid.representation.representation import Representation

VALUES = [0.0, 0.0, 0.0, 1e-45, 1e-30, 1e-7, 3e-5, 0.3, 1.0, 1.0 - 2**-24, 7.0, 1e30, 3e38]


def representation(z, **more):
    names = [str(i) for i in range(len(z))]
    return Representation("made", Path("made.npy"), z, names, **more)


def gated(z, shut, by=1.0):
    """A hard gate that is closed where `shut` says, on what would be `by` times as large there."""
    gate = torch.where(shut, 0.25, 0.75)
    gate[0, 0] = 0.5 if shut[0, 0] else 0.75  # at the threshold, which is closed
    ungated = z.where(~shut, z * by)
    return representation(
        z.masked_fill(shut, 0.0), ungated=ungated, gate=gate, threshold=0.5
    )  # fmt: skip


def decoded(packed, n, k, *, hard=False, signed=False):
    """What the docstring of `Packed` says, read by a loop: entries by (image, dimension)."""
    raw, at = gzip.decompress(packed.data), 0

    def bits(count):
        nonlocal at
        out = [raw[at + i // 8] >> (i % 8) & 1 for i in range(count)]
        unused = raw[at + count // 8] >> (count % 8) if count % 8 else 0
        assert unused == 0
        at += -(-count // 8)
        return out

    def octets(count):
        nonlocal at
        at += count
        return raw[at - count : at]

    bitmap, stored = bits(n * k), packed.entries
    assert sum(bitmap) == stored
    active = bits(stored)
    opened = bits(stored) if hard else [1] * stored
    negative = bits(stored) if signed else [0] * stored
    high, low = octets(stored), octets(stored)
    scales = struct.unpack(f"<{n}f", octets(4 * n))
    scales_taken = struct.unpack(f"<{n}f", octets(4 * n)) if hard else None
    assert at == len(raw)
    out, entry = {}, 0
    for place, one in enumerate(bitmap):
        if not one:
            continue
        row = place // k
        level = high[entry] * 256 + low[entry]
        scale = scales[row] if opened[entry] else scales_taken[row]
        value = level * scale / 65_535 * (-1 if negative[entry] else 1)
        out[row, place % k] = (value, level, scale, active[entry], opened[entry])
        entry += 1
    return out


def check(source, *, signed, images=None):
    n, k = source.z.shape
    images = torch.arange(n) if images is None else images
    packed = pack(source, images)
    hard = source.threshold is not None
    found = decoded(packed, len(images), k, hard=hard, signed=signed)
    active = active_entries(source.z)
    for row, i in enumerate(images.tolist()):
        for column in range(k):
            z = source.z[i, column].item()
            taken = (
                hard
                and source.gate[i, column].item() <= source.threshold
                and source.ungated[i, column].item() != 0
            )
            if z == 0 and not taken:
                assert (row, column) not in found
                continue
            value, level, scale, is_active, is_open = found.pop((row, column))
            expected = source.ungated[i, column].item() if taken else z
            assert is_open == (not taken)
            assert is_active == active[i, column].item()
            assert 1 <= level <= 65_535
            assert (value < 0) == (signed and expected < 0)
            of_kind = source.z[i].abs().max().item()
            if taken:
                shut = (source.gate[i] <= source.threshold) & (source.ungated[i] != 0)
                of_kind = source.ungated[i][shut].abs().max().item()
            assert scale == of_kind
            half = scale / 65_535 / 2
            if abs(expected) >= half:
                assert abs(abs(value) - abs(expected)) <= half * (1 + 1e-9)
            else:
                assert level == 1  # never nothing
    assert not found


def table(values):
    return st.integers(1, 7).flatmap(
        lambda k: st.lists(st.lists(values, min_size=k, max_size=k), min_size=1, max_size=5)
    )


@settings(max_examples=150, deadline=None)
@given(table(st.sampled_from(VALUES)))
def test_a_decoder_of_the_docstring_reads_it(rows):
    check(representation(torch.tensor(rows)), signed=False)


@settings(max_examples=100, deadline=None)
@given(table(st.sampled_from([*VALUES, -1e-30, -0.3, -1.0, -1e30])), st.booleans())
def test_signs_are_kept(rows, zeros):
    z = torch.tensor(rows)
    if zeros:
        z[0] = 0
    check(representation(z), signed=bool((z < 0).any()))


@settings(max_examples=150, deadline=None)
@given(table(st.tuples(st.sampled_from(VALUES), st.booleans())), st.sampled_from([1.0, 1e-4, 30.0]))
def test_what_a_hard_gate_took_away_is_kept_apart(rows, by):
    z = torch.tensor([[value for value, _ in row] for row in rows]).clamp(max=1e30)
    shut = torch.tensor([[one for _, one in row] for row in rows])
    check(gated(z, shut, by), signed=False)


def test_a_signed_gated_representation():
    z = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    shut = torch.rand(9, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    check(gated(z, shut, 2.0), signed=True)


def test_a_soft_gate_takes_nothing_away():
    z = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    gate = torch.full_like(z, 0.1)
    soft = representation(z * gate, ungated=z, gate=gate, threshold=None)
    check(soft, signed=False)
    assert pack(soft, torch.arange(6)) == pack(representation(z * gate), torch.arange(6))


def test_some_images_in_their_order():
    z = torch.randn(12, 7, generator=torch.Generator().manual_seed(0)).relu()
    shut = torch.rand(12, 7, generator=torch.Generator().manual_seed(1)) < 0.3
    for images in ([3], [1, 4, 11], [11, 0]):
        check(representation(z), signed=False, images=torch.tensor(images))
        check(gated(z, shut), signed=False, images=torch.tensor(images))


def test_negative_bits_are_stored_where_an_entry_is_negative():
    z = torch.tensor([[1.0, 2.0], [-1.0, 0.5]])
    check(representation(z), signed=False, images=torch.tensor([0]))
    check(representation(z), signed=True, images=torch.tensor([0, 1]))
    assert not pack(representation(z), torch.tensor([0])).signed
    assert pack(representation(z), torch.tensor([1])).signed


def cosines(rows):
    length = np.linalg.norm(rows, axis=1)
    with np.errstate(invalid="ignore"):
        return rows @ rows.T / length[:, None] / length


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("by", [None, 1.0, 1000.0])
@pytest.mark.parametrize("k", [3, 64, 257])
def test_cosines_survive(signed, by, k):
    generator = torch.Generator().manual_seed(k)
    z = torch.randn(50, k, generator=generator)
    z = z.exp() * z.sign() if signed else (z - 0.5).relu()
    z *= torch.tensor(10.0) ** torch.randint(-20, 20, (50, 1), generator=generator)
    z[7] = 0
    # What is taken may be far larger than what is left, and must not cost it its digits.
    source = representation(z)
    if by is not None:
        source = gated(z, torch.rand(50, k, generator=generator) < 0.3, by)
    found = decoded(pack(source, torch.arange(50)), 50, k, hard=by is not None, signed=signed)
    back = np.zeros((50, k))
    for (row, column), (value, _, _, _, opened) in found.items():
        back[row, column] = value if opened else 0
    expected = cosines(source.z.double().numpy())
    assert np.isnan(expected[7]).all()
    np.testing.assert_allclose(cosines(back), expected, rtol=0, atol=5e-5)


def test_the_same_bytes_twice(monkeypatch):
    z = torch.randn(20, 9, generator=torch.Generator().manual_seed(0))
    first = pack(representation(z), torch.arange(20))
    monkeypatch.setattr("time.time", lambda: 2e9)  # what gzip would write into its header
    assert pack(representation(z.clone()), torch.arange(20)) == first
    assert first.data[4:8] == bytes(4)
    assert gzip.decompress(compress(b"a" * 1000)) == b"a" * 1000
    assert LEVELS == 65_535
