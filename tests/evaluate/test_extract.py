import hashlib

import pytest
import torch
from torch import Tensor, nn

from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import Features, extract, image_batches
from pellucid.heads import BayesGate, NonNegative, Signed
from pellucid.heads.head import Head

CPU = torch.device("cpu")


def encoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.5),
    )  # fmt: skip


def gated_branch() -> Branch:
    torch.manual_seed(0)
    head = BayesGate(NonNegative(), nn.Linear(6, 4), prior=0.5, variant="gumbel")
    return Branch(encoder(), nn.Linear(6, 4), head)


def images(count: int = 23, *, labels: bool = True) -> ImageSet:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8)
    classes = torch.arange(count) % 3 - 1
    return ImageSet.from_pixels(pixels, classes if labels else None, ("a", "b") if labels else None)


def scaled(pixels: Tensor) -> Tensor:
    return pixels.float() / 255


def run(branch: Branch, data: ImageSet, **changes: object) -> Features:
    settings = {"device": CPU, "precision": "fp32", "batch": 5} | changes
    return extract(branch, scaled, data, **settings)


def digest(branch: Branch) -> str:
    found = hashlib.sha256()
    for name, tensor in branch.state_dict().items():
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def test_every_stage_is_that_of_the_branch_in_eval_mode() -> None:
    branch, data = gated_branch(), images()
    found = run(branch, data)
    with torch.no_grad():
        branch.eval()
        for index in range(len(data)):  # one image at a time
            one = branch(scaled(data.pixels[index : index + 1]))
            for name in ("h", "u", "z", "gate"):
                torch.testing.assert_close(getattr(found, name)[index], getattr(one, name)[0])
            torch.testing.assert_close(found.ungated[index], one.u[0].relu())
    assert torch.equal(found.labels, data.labels)
    closed = found.gate <= 0.5
    assert 0 < closed.sum() < closed.numel()
    assert torch.equal(found.z, found.ungated * ~closed)


def test_the_branch_is_afterwards_what_it_was() -> None:
    branch = gated_branch().train()
    branch.encoder[1].eval()
    modes, before = [m.training for m in branch.modules()], digest(branch)
    run(branch, images())
    assert digest(branch) == before
    assert [m.training for m in branch.modules()] == modes
    assert all(p.grad is None for p in branch.parameters())


def test_a_head_without_gates_has_none_and_features_can_be_learnt_from() -> None:
    torch.manual_seed(0)
    found = run(Branch(encoder(), nn.Linear(6, 4), Signed()), images(labels=False))
    assert found.gate is None
    assert found.labels is None
    assert torch.equal(found.ungated, found.u)
    weight = torch.ones(6, requires_grad=True)  # a probe's: refused for inference tensors
    (found.h @ weight).sum().backward()
    torch.testing.assert_close(weight.grad, found.h.sum(dim=0))


def test_the_chosen_images_in_their_order() -> None:
    branch, data = gated_branch(), images()
    whole, chosen = run(branch, data), torch.tensor([7, 0, 22, 7])
    some = run(branch, data, indices=chosen)
    torch.testing.assert_close(some.z, whole.z[chosen])
    assert torch.equal(some.labels, data.labels[chosen])


def test_bf16_is_used_and_kept_as_fp32() -> None:
    branch, data = gated_branch(), images()
    whole, half = run(branch, data), run(branch, data, precision="bf16")
    assert {values.dtype for values in half[:5]} == {torch.float32}
    assert not torch.equal(half.u, whole.u)
    torch.testing.assert_close(half.u, whole.u, atol=0.02, rtol=0.02)


def test_images_arrive_channels_last() -> None:
    (batch,) = image_batches(images(5), torch.arange(5), scaled, CPU)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert not batch.is_contiguous()


def test_a_diverged_branch_is_named() -> None:
    branch = gated_branch()
    branch.projector.weight.data[0, 0] = float("nan")
    with pytest.raises(ValueError, match="u is not finite on 23 of 23 images"):
        run(branch, images())
    assert branch.training


def test_no_image_is_an_error() -> None:
    with pytest.raises(ValueError, match="no image"):
        run(gated_branch(), images(), indices=torch.arange(0))


def test_modes_come_back_after_an_error() -> None:
    class Broken(Head):
        def forward(self, u: Tensor, h: Tensor) -> object:
            raise RuntimeError("broken")

    branch = Branch(encoder(), nn.Linear(6, 4), Broken())
    with pytest.raises(RuntimeError, match="broken"):
        run(branch, images())
    assert all(m.training for m in branch.modules())
