"""A step hands work to a GPU and never waits for it; only the log's lines do, now and then."""

import collections
import os
import traceback

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.build import build_learner, build_optimiser, build_views
from pellucid.data.image_set import ImageSet
from pellucid.learner import weigh
from pellucid.randomness import seed_noise
from pellucid.recipe import compose
from pellucid.train.batches import epoch_batches
from pellucid.train.device import autocast, resolve_precision
from pellucid.train.finite import gradient_norms
from pellucid.train.log import Log
from pellucid.train.loop import layout
from pellucid.train.optimisers import set_rates
from pellucid.transfer import send

METHODS = (
    "simclr", "ncl", "ncl-topk", "ncl-ipw", "bayesncl", "moco", "byol", "ie-simclr", "ie-bayesncl",
)  # fmt: skip
SIZE, BATCH, STEPS = 16, 8, 6
aten = torch.ops.aten


class NoWaiting(TorchDispatchMode):
    """Refuses what waits for a GPU, when all it is done to would lie there.

    Numbers read off a tensor (`item`, `if tensor`), shapes that hang on values (`nonzero`, boolean
    masks), a factorisation that looks whether it went well, and Python numbers made a tensor, which
    are copied there with a wait. What the CPU draws for itself (`randint`, `randperm`) may be read.
    """

    WAITS = (
        aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.is_nonzero, aten.equal,
        aten.unique_dim, aten._unique2, aten.repeat_interleave, aten.bincount,
        aten._linalg_check_errors, aten.lift_fresh,
    )  # fmt: skip
    DRAWS = (aten.randint, aten.randperm)

    def __init__(self):
        super().__init__()
        self.drawn = []
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        packet = func.overloadpacket
        masks = packet in (aten.index, aten.index_put, aten.index_put_) and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if (packet in self.WAITS and not self.was_drawn(args[0])) or masks:
            frames = traceback.extract_stack()[:-1]
            at = [f for f in frames if f"{os.sep}torch{os.sep}" not in f.filename][-1]
            self.found.append(f"{func} at {at.filename}:{at.lineno}: {at.line}")
        result = func(*args, **(kwargs or {}))
        if packet in self.DRAWS:
            self.drawn.append(result)  # kept, so that no later tensor gets its place
        return result

    def was_drawn(self, tensor):
        return any(tensor.data_ptr() == draw.data_ptr() for draw in self.drawn)


class Trained:
    """The step of the training loop, one call each."""

    def __init__(self, method, device, tmp_path, size=SIZE, batch=BATCH):
        keys = [
            "encoder.name=resnet18-thin", "encoder.stem_padding=1", f"views.size={size}",
            f"train.batch={batch}",
        ]  # fmt: skip
        self.recipe = compose(method, "cifar10", overrides=keys)
        self.learner = build_learner(self.recipe).to(device).to(memory_format=torch.channels_last)
        self.optimiser = build_optimiser(self.recipe, self.learner)
        self.views = build_views(self.recipe)
        self.precision = resolve_precision("auto", device)
        pixels = torch.randint(0, 256, (STEPS * 2 * batch, 3, size, size), dtype=torch.uint8)
        images = ImageSet.from_pixels(pixels).on(device)
        order = epoch_batches(len(images), batch, 1, 0, 0, skip_steps=0)
        self.batches = zip(order, self.views.read(images, order), strict=True)
        self.device = device
        self.log = Log(tmp_path, every=1000, start=0, steps=1000, batch=batch, writes=True)
        self.number = 0

    def two_views(self):
        own, pixels = next(self.batches)
        return self.views(send(pixels, self.device), self.number, own.rows)

    def backward(self, query, key):
        seed_noise(0, self.number, 0)
        with autocast(self.device, self.precision):
            step = self.learner(layout(query), layout(key))
            loss = weigh(step.terms, self.recipe.weights)
            torch.autograd.backward(loss)
        return step, loss.detach()

    def update(self, step):
        set_rates(self.optimiser, 0.5)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.learner.after_step([step], 0.5)

    def __call__(self):
        step, loss = self.backward(*self.two_views())
        values = {name: value.detach() for name, value in step.terms.items()} | {"loss": loss}
        self.log.add(self.number, values, gradient_norms(self.optimiser))
        self.update(step)
        self.log.end_step(self.number, {}, {})
        self.number += 1


@pytest.mark.parametrize("method", METHODS)
def test_no_operation_of_a_step_reads_a_value_or_a_shape_off_a_tensor(method, tmp_path):
    trained = Trained(method, torch.device("cpu"), tmp_path)
    trained()  # the first fills a queue and makes the optimiser's buffers
    query, key = trained.two_views()  # drawn on the CPU by intent: see their own tests
    with NoWaiting() as mode:
        step, _ = trained.backward(query, key)
        gradient_norms(trained.optimiser)
        trained.update(step)
    assert not mode.found


def read(x):
    return x.sum().item()


def branch_on(x):
    return 1 if (x > 0).any() else 0


def mask(x):
    return x[x > 0]


def masked_assignment(x):
    x[x > 0] = 0.0


def factorise(x):
    return torch.linalg.cholesky(torch.eye(4) * x.square().sum())


def make(x):
    return x.new_tensor([1.0])


@pytest.mark.parametrize("waits", [read, branch_on, mask, masked_assignment, factorise, make])
def test_what_would_wait_is_seen(waits):
    with NoWaiting() as mode:
        waits(torch.randn(4))
    assert mode.found


def test_reading_a_draw_of_the_cpu_waits_for_nothing():
    with NoWaiting() as mode:
        int(torch.randint(9, ()))
    assert not mode.found


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")
@pytest.mark.parametrize("method", METHODS)
def test_steps_on_a_gpu_are_queued_without_waiting_for_it(method, tmp_path):
    from torch.profiler import ProfilerActivity, profile, record_function

    trained = Trained(method, torch.device("cuda"), tmp_path, size=32, batch=64)
    for _ in range(3):  # kernels are chosen and libraries opened with waits of their own
        trained()
    torch.cuda.synchronize()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as profiled:
        with record_function("steps"):
            for _ in range(STEPS):
                trained()
        torch.cuda.synchronize()
    events = profiled.events()
    (steps,) = [e.time_range for e in events if e.name == "steps" and "CPU" in str(e.device_type)]
    waits = collections.Counter(
        event.name
        for event in events
        # The profiler itself waits for the device before and after; copies are the device's, later.
        if "DtoH" in event.name
        or ("Synchronize" in event.name and steps.start <= event.time_range.start <= steps.end)
    )
    assert not waits
