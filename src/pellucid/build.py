"""Names become objects: the only place that knows both recipes and modules."""

from typing import Any

import torch
from torch.optim import Optimizer

from pellucid.branch import Branch
from pellucid.frameworks import FRAMEWORKS
from pellucid.heads import HEADS
from pellucid.learner import Learner, weigh
from pellucid.nets.encoders import feature_width, make_encoder
from pellucid.nets.mlp import mlp
from pellucid.query_transforms import QUERY_TRANSFORMS
from pellucid.randomness import seed_noise
from pellucid.recipe import Recipe
from pellucid.regularisers import REGULARISERS
from pellucid.settings import RecipeError
from pellucid.train.batches import TwoViews
from pellucid.train.optimisers import OPTIMISERS, parameter_groups

LR_BATCH = 256
"""`lr` is the peak learning rate at this batch size, and grows with it."""


def build_branch(recipe: Recipe) -> Branch:
    """Encoder, projector and head, with weights that are a function of the seed."""
    seed_noise(recipe.train.seed, "weights")
    size, dimensions = recipe.views.size, recipe.projector.dimensions
    settings = recipe.encoder
    encoder = make_encoder(
        settings.name, size, settings.stem, settings.stem_padding, settings.stem_stride
    )
    features = feature_width(encoder, size)
    width, norm = recipe.projector.hidden, recipe.projector.batch_norm
    projector = mlp(features, width, dimensions, batch_norm=norm)
    return Branch(encoder, projector, recipe.head.build(HEADS, features, dimensions))


def build_learner(recipe: Recipe) -> Learner:
    """The whole learner of a recipe, checked by a dry run: every term has a weight.

    Raises:
        RecipeError: a term without a weight, a weight without a term, or parts that do not fit.
    """
    try:
        branch = build_branch(recipe)
        framework = recipe.framework.build(FRAMEWORKS, branch, recipe.projector.dimensions)
        transform = recipe.query_transform.build(QUERY_TRANSFORMS, recipe.views.size)
        regularisers = [
            REGULARISERS[name](branch.encoder, transform, **settings)
            for name, settings in recipe.regularisers.items()
        ]
        learner = Learner(framework, transform, regularisers)
        learner.eval()  # a dry run must not touch batch-norm statistics
        images = torch.zeros(2, 3, recipe.views.size, recipe.views.size)
        with torch.no_grad():
            weigh(learner(images, images).terms, recipe.weights)
    except ValueError as error:
        raise RecipeError(str(error)) from error
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        raise RecipeError(
            f"encoder.name={recipe.encoder.name}, views.size={recipe.views.size}, "
            f"projector.hidden={recipe.projector.hidden} and projector.dimensions="
            f"{recipe.projector.dimensions}, with the head and the framework, need more memory "
            "than there is: make one of them smaller"
        ) from error
    return learner.train()


def build_optimiser(recipe: Recipe, learner: Learner) -> Optimizer:
    """The optimiser; `lr` is scaled by batch / 256, learning rates of parts are not."""
    lr = recipe.lr * recipe.train.batch / LR_BATCH
    try:
        groups = parameter_groups(learner, lr, recipe.weight_decay, recipe.lr_of)
        return recipe.optimiser.build(OPTIMISERS, groups)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def build_views(recipe: Recipe) -> TwoViews:
    """The two views of a batch."""
    data, plan = recipe.data, recipe.train
    return TwoViews(recipe.views, data.mean, data.std, plan.seed, plan.batch)


def source_settings(recipe: Recipe) -> dict[str, Any]:
    """What `open_images` needs of a recipe, but the split."""
    data = recipe.data
    return {
        "name_or_path": data.source,
        "root": data.root,
        "stored_size": data.stored_size,
        "image_column": data.image_column,
        "label_column": data.label_column,
        "holdout": data.holdout,
        "memory_limit_gb": data.memory_limit_gb,
        "bad_share": data.bad_share,
        "seed": data.seed,
    }
