"""Batch norm ends with the statistics of plain images, whatever training has seen."""

import copy

import torch
from torch import nn

from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.data.views import ViewSettings
from pellucid.frameworks import SimCLR
from pellucid.heads import NonNegative
from pellucid.learner import Learner
from pellucid.nets.batch_norm import recalibrate_batch_norm
from pellucid.query_transforms import QueryTransform
from pellucid.train import checkpoint
from pellucid.train.batches import TwoViews
from pellucid.train.loop import train
from pellucid.train.optimisers import OPTIMISERS, parameter_groups
from pellucid.train.plan import Plan

IMAGES, SIZE = 18, 8
PLAN = Plan(epochs=10, batch=8, accumulate=2, warmup_epochs=2.0, precision="fp32", log_every=3)


class Turned(QueryTransform):
    """A transform that leaves a batch norm's running statistics far from those of plain images."""

    def forward(self, images):
        return 5 - 3 * images, {}


def test_the_last_checkpoint_holds_the_statistics_of_plain_images(tmp_path):
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    learner = Learner(SimCLR(Branch(encoder, nn.Linear(6, 8), NonNegative())), Turned())
    optimiser = OPTIMISERS["lars"](parameter_groups(learner, 0.05, 1e-4, {}))
    pixels = torch.randint(0, 256, (IMAGES, 3, SIZE, SIZE), dtype=torch.uint8)
    settings = ViewSettings(size=SIZE, jitter=0.0, blur=0.0)
    views = TwoViews(settings, (0.5,) * 3, (0.25,) * 3, PLAN.seed, PLAN.batch)
    images = ImageSet.from_pixels(pixels)
    train(learner, images, views, optimiser, {"contrast": 1.0}, PLAN, tmp_path)

    branch, plain = learner.framework.online, views.plain(pixels)
    right, of_queries = copy.deepcopy(branch), copy.deepcopy(branch)
    recalibrate_batch_norm(right, [plain])
    recalibrate_batch_norm(of_queries, [learner.query_transform(plain)[0]])
    with torch.no_grad():
        wanted, got, wrong = (net.eval()(plain).h for net in (right, branch, of_queries))
    assert torch.cosine_similarity(got, wanted).min() > 0.99
    assert torch.cosine_similarity(wrong, wanted).min() < 0.9  # what would be left without it
    saved = checkpoint.newest(tmp_path)[1]
    name = "framework.online.encoder.1.running_mean"
    assert torch.equal(saved[f"learner/{name}"], learner.state_dict()[name])
