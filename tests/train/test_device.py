"""Devices, precision and the machine's facts."""

import pytest
import torch
from torch import distributed as dist

from pellucid.train.device import hardware, join_processes, pick_device, resolve_precision

CPU = torch.device("cpu")


def test_auto_is_cuda_where_there_is_one_and_the_cpu_elsewhere(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device() == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert pick_device() == torch.device("cuda", 1)
    assert pick_device("cpu") == CPU
    assert pick_device("cuda:2") == torch.device("cuda", 2)


@pytest.mark.parametrize(("fast", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_precision_is_what_the_hardware_does_fast(monkeypatch, fast, expected):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: fast)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: fast)
    assert resolve_precision("auto", CPU) == expected
    assert resolve_precision("auto", torch.device("cuda")) == expected
    assert resolve_precision("fp32", CPU) == "fp32"
    assert resolve_precision("bf16", CPU) == "bf16"


def test_one_process_joins_nothing(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    join_processes(CPU)
    assert not dist.is_initialized()


def test_the_machine_is_described_in_words():
    facts = hardware(CPU)
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
    assert isinstance(facts["device"], str)
    assert facts["device"].strip()
