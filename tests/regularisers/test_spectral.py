"""The encoder regulariser: the operators it sees, its gradient, its state, and whose encoder."""

import copy

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn.utils import fusion
from torchvision.models.resnet import BasicBlock

from pellucid.branch import Branch
from pellucid.frameworks import SimCLR
from pellucid.heads import Signed
from pellucid.learner import Learner
from pellucid.nets import make_encoder
from pellucid.query_transforms import Saib
from pellucid.regularisers import Spectral, TransformDecay
from pellucid.regularisers.spectral import layers_of
from pellucid.types import Step


def trained(net):
    """Statistics and parameters of batch norm as after some training, far from 1 and 0."""
    generator = torch.Generator().manual_seed(5)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.track_running_stats:
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.2, 3.0, generator=generator)
            if module.affine:
                nn.init.normal_(module.weight, generator=generator)
                nn.init.normal_(module.bias, generator=generator)
    return net


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def convolutions(eps=1e-5):
    return trained(
        nn.Sequential(
            nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4, eps), nn.ReLU(),
            nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, eps), nn.ReLU(),
            nn.Flatten(), nn.Linear(6 * 16, 5), nn.BatchNorm1d(5, eps),
        )
    )  # fmt: skip


def formed(regulariser):
    """The operator of each layer as one matrix."""
    return [m if gain is None else m * gain[:, None] for m, gain in regulariser.operators()]


def settled(encoder, folded=True):
    """A regulariser at the end of its power iteration."""
    regulariser = Spectral(encoder, folded)
    for index, matrix in enumerate(formed(regulariser)):
        regulariser.get_buffer(f"left_{index}").copy_(torch.linalg.svd(matrix.detach())[0][:, 0])
    return regulariser


def term(regulariser):
    return regulariser(Step({}, None, None, None))["spectral"]  # looks at no embedding


@pytest.fixture
def learner():
    encoder = convolutions()
    framework = SimCLR(Branch(encoder, nn.Linear(5, 4), Signed()))
    transform = Saib(patch=4, expansion=1, grid=2)
    return Learner(framework, transform, [Spectral(encoder), TransformDecay(transform)])


def test_the_folded_operator_is_that_of_layer_and_batch_norm_in_evaluation():
    net = convolutions().eval()
    first = fusion.fuse_conv_bn_eval(net[0], net[1]).weight.flatten(1)
    second = fusion.fuse_conv_bn_eval(net[3], net[4]).weight.flatten(1)
    third = fusion.fuse_linear_bn_eval(net[7], net[8]).weight
    for found, expected in zip(formed(Spectral(net)), (first, second, third), strict=True):
        torch.testing.assert_close(found, expected)
    squares = [torch.linalg.svdvals(m)[0].item() ** 2 for m in (first, second, third)]
    assert term(settled(net)).item() == pytest.approx(sum(squares) / 3, rel=1e-4)


def test_the_plain_operator_is_the_kernel_alone():
    net = convolutions()
    kernels = [net[i].weight.flatten(1) for i in (0, 3, 7)]
    squares = [torch.linalg.svdvals(m)[0].item() ** 2 for m in kernels]
    assert term(settled(net, folded=False)).item() == pytest.approx(sum(squares) / 3, rel=1e-4)


def test_every_convolution_of_a_thin_resnet_is_found_with_its_batch_norm():
    net = make_encoder("resnet18-thin", 32)
    found = layers_of(net)
    stages = range(1, 5)
    blocks = [f"layer{s}.{b}" for s in stages for b in (0, 1)]
    expected = {("conv1", "bn1")}
    expected |= {(f"{block}.conv{i}", f"{block}.bn{i}") for block in blocks for i in (1, 2)}
    expected |= {(f"layer{s}.0.downsample.0", f"layer{s}.0.downsample.1") for s in stages[1:]}
    assert set(found) == expected
    assert len(found) == len(expected)


def test_a_block_of_torchvision_is_found_with_its_batch_norms():
    shortcut = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    assert layers_of(BasicBlock(3, 4, downsample=shortcut)) == [
        ("conv1", "bn1"),
        ("conv2", "bn2"),
        ("downsample.0", "downsample.1"),
    ]


def test_a_net_without_batch_norm_has_its_plain_kernels():
    net = VisionTransformer(8, 4, num_classes=0, embed_dim=8, depth=1, num_heads=2, mlp_ratio=2)
    names = ["patch_embed.proj", *(f"blocks.0.{n}" for n in ("attn.qkv", "attn.proj"))]
    assert layers_of(net) == [(n, None) for n in [*names, "blocks.0.mlp.fc1", "blocks.0.mlp.fc2"]]
    assert torch.equal(formed(Spectral(net))[0], net.patch_embed.proj.weight.flatten(1))


@pytest.mark.parametrize(
    ("norm", "behind"),
    [
        (nn.BatchNorm2d(4), "1"),
        (nn.BatchNorm2d(4, affine=False), "1"),
        (nn.BatchNorm2d(4, track_running_stats=False), None),
        (nn.BatchNorm2d(3), None),  # of another width: not behind this layer
        (nn.GroupNorm(2, 4), None),
    ],
)
def test_only_a_batch_norm_that_fits_and_has_statistics_is_folded(norm, behind):
    net = trained(nn.Sequential(nn.Conv2d(3, 4, 3), norm))
    assert layers_of(net) == [("0", behind)]
    (matrix,) = formed(Spectral(net))
    kernel = net[0].weight.flatten(1)
    if behind:
        gain = 1 if norm.weight is None else norm.weight
        kernel = kernel * (gain * (norm.running_var + norm.eps).rsqrt())[:, None]
    torch.testing.assert_close(matrix, kernel)


def test_an_encoder_without_layers_is_refused():
    with pytest.raises(ValueError, match="convolutions or linear maps"):
        Spectral(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten()))


def test_a_filter_is_never_merely_shrunk_when_folded_and_is_when_not():
    net = convolutions(eps=1e-12)
    weights = [net[i].weight for i in (0, 3, 7)]
    for folded in (True, False):
        gradients = torch.autograd.grad(term(settled(net, folded)), weights)
        for gradient, weight in zip(gradients, weights, strict=True):
            assert gradient.norm() > 1e-3
            cosine = torch.cosine_similarity(gradient.flatten(1), weight.flatten(1), dim=1).abs()
            assert cosine.max() < 1e-4 if folded else cosine.max() > 0.5


def test_the_gradient_is_that_of_svdvals_with_variances_that_grow_with_the_filters():
    net = convolutions().double()
    regulariser = settled(net)
    weight, norm = net[0].weight, net[1]
    start = weight.detach().flatten(1)
    rows = weight.flatten(1)
    variance = norm.running_var * rows.square().sum(1) / start.square().sum(1) + norm.eps
    operator = rows * (norm.weight / variance.sqrt())[:, None]
    largest = torch.linalg.svdvals(operator)[0]
    expected = torch.autograd.grad(largest**2 / 3, [weight, norm.weight])
    for found, right in zip(
        torch.autograd.grad(term(regulariser), [weight, norm.weight]), expected, strict=True
    ):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-6)


def test_a_filter_of_zeros_has_a_finite_gradient():
    net = convolutions()
    with torch.no_grad():
        net[0].weight[1] = 0
    (gradient,) = torch.autograd.grad(term(Spectral(net)), net[0].weight)
    assert gradient.isfinite().all()
    assert gradient[0].norm() > 0


@pytest.mark.parametrize("folded", [True, False])
def test_channels_last_changes_neither_value_nor_gradient(folded):
    net = convolutions()
    other = copy.deepcopy(net).to(memory_format=torch.channels_last)
    weights, theirs = ([some[i].weight for i in (0, 3, 7)] for some in (net, other))
    assert not theirs[0].is_contiguous()
    values = [term(settled(some, folded)) for some in (net, other)]
    torch.testing.assert_close(*values)
    gradients = [torch.autograd.grad(*one) for one in zip(values, (weights, theirs), strict=True)]
    torch.testing.assert_close(*gradients)
    assert gradients[1][0].is_contiguous(memory_format=torch.channels_last)  # as the weights are


def test_state_moves_in_after_step_alone_and_comes_to_the_singular_value():
    net = convolutions()
    regulariser = Spectral(net)
    exact = term(settled(net)).item()
    for index, matrix in enumerate(formed(regulariser)):
        left = torch.randn(len(matrix))
        regulariser.get_buffer(f"left_{index}").copy_(left / left.norm())
    before = copy.deepcopy(regulariser.state_dict())
    value = term(regulariser).item()
    assert value < 0.9 * exact
    assert term(regulariser).item() == value
    assert all(torch.equal(before[name], b) for name, b in regulariser.state_dict().items())
    values = [value]
    for _ in range(40):
        regulariser.after_step([], 0.0)
        values.append(term(regulariser).item())
    assert values[0] < values[1] < values[5]
    assert max(values) < exact * (1 + 1e-6)
    assert values[-1] == pytest.approx(exact, rel=1e-3)


def test_two_calls_and_the_encoders_forwards_may_come_before_one_backward():
    net = convolutions().train()
    regulariser, images = Spectral(net), 5 * torch.randn(8, 3, 8, 8)
    weights = [net[0].weight, net[3].weight, net[1].weight]
    alone = torch.autograd.grad(term(regulariser), weights)
    first = term(regulariser)
    net(images)  # moves the running variances, as the second pass of a symmetric framework does
    for found, right in zip(torch.autograd.grad(first, weights), alone, strict=True):
        torch.testing.assert_close(found, right)
    alone = torch.autograd.grad(term(regulariser), weights)
    twice = torch.autograd.grad(term(regulariser) + term(regulariser), weights)
    for found, right in zip(twice, alone, strict=True):
        torch.testing.assert_close(found, 2 * right)


def test_a_layer_whose_batch_norm_starts_at_zero_is_followed_once_it_is_none():
    net = convolutions()
    nn.init.zeros_(net[1].weight)
    regulariser = Spectral(net)
    assert term(regulariser).isfinite()
    nn.init.ones_(net[1].weight)
    for _ in range(10):
        regulariser.after_step([], 0.0)
    assert term(regulariser).item() == pytest.approx(term(settled(net)).item(), rel=0.1)


def test_reparametrised_weights_are_read_as_the_encoder_uses_them():
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    assert torch.equal(formed(Spectral(net))[0], net[0].weight)


def test_the_encoder_is_held_and_not_owned(learner):
    spectral = learner.regularisers[0]
    assert spectral.state_dict().keys() == {"left_0", "left_1", "left_2"}
    assert not list(spectral.parameters())
    names = [name for name, _ in learner.named_parameters(remove_duplicate=False)]
    assert not [name for name in names if name.startswith("regularisers")]
    parts = (learner.framework, learner.query_transform)
    assert len(names) == sum(len(list(part.parameters())) for part in parts)
    saved = {name for name in learner.state_dict() if name.startswith("regularisers")}
    assert saved == {f"regularisers.0.left_{i}" for i in range(3)}


def test_state_that_is_loaded_is_state_that_was_saved(learner):
    spectral = settled(learner.framework.online.encoder)
    other = Spectral(learner.framework.online.encoder)
    for name in ("left_0", "left_1", "left_2"):
        other.get_buffer(name).zero_()
    other.load_state_dict(spectral.state_dict())
    assert torch.equal(term(other), term(spectral))


def test_a_copy_of_a_learner_looks_at_the_copys_encoder_and_transform(learner):
    copied = copy.deepcopy(learner)
    assert copied.regularisers[0].held[0] is copied.framework.online.encoder
    assert copied.regularisers[1].held[0] is copied.query_transform
    assert copied.framework.online.encoder is not learner.framework.online.encoder
    assert learner.regularisers[0].held[0] is learner.framework.online.encoder
    before = term(learner.regularisers[0]).item()
    with torch.no_grad():
        copied.framework.online.encoder[1].weight.mul_(10)
    assert term(learner.regularisers[0]).item() == before
    assert term(copied.regularisers[0]).item() > before


def test_moving_a_learner_moves_what_its_regulariser_sees(learner):
    single = term(learner.regularisers[0])
    learner.to(torch.float64)
    assert term(learner.regularisers[0]).dtype == torch.float64
    assert term(learner.regularisers[0]).item() == pytest.approx(single.item(), rel=1e-5)
    learner.regularisers[0].after_step([], 0.0)
    assert learner.regularisers[0].get_buffer("left_0").dtype == torch.float64


def test_a_later_conversion_to_synchronised_batch_norm_changes_nothing(learner):
    spectral = learner.regularisers[0]
    before = term(spectral)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(learner)
    encoder = converted.framework.online.encoder
    assert isinstance(encoder[1], nn.SyncBatchNorm)
    assert torch.equal(term(spectral), before)
    with torch.no_grad():
        encoder[1].weight.mul_(10)
    spectral.after_step([], 0.0)
    assert term(spectral) > before
