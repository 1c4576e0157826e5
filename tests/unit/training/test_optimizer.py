"""The optimizer steps as torch's own does, without loading torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from lampnet.config import TrainingConfig
from lampnet.training.optimizer import make_optimizer


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_steps_are_those_of_torch(name: str, kind: type[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(5, 4)), torch.nn.Parameter(torch.randn(4))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    config = TrainingConfig(optimizer=name)
    optimizer = make_optimizer(ours, config)
    groups = [{"params": theirs[:1], "weight_decay": config.weight_decay}, {"params": theirs[1:], "weight_decay": 0.0}]
    reference = kind(groups, lr=config.learning_rate, fused=True)
    for _ in range(5):
        for parameters, one in ((ours, optimizer), (theirs, reference)):
            (parameters[0] @ parameters[1]).square().sum().backward()
            one.step()
            one.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_step_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch\n"
        "from lampnet.config import TrainingConfig\n"
        "from lampnet.training.optimizer import make_optimizer\n"
        "p = torch.nn.Parameter(torch.ones(2, 2))\n"
        "optimizer = make_optimizer([p], TrainingConfig())\n"
        "p.sum().backward(); optimizer.step(); optimizer.zero_grad()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
