"""The loss against a loop over rows and labels."""

from __future__ import annotations

import math

import pytest
import torch

from lampnet.errors import DataError
from lampnet.training.loss import lamp_loss

NAN = float("nan")


def slow_mean(logits: torch.Tensor, targets: torch.Tensor) -> float:
    total, count = 0.0, 0
    for z, y in zip(logits.flatten().tolist(), targets.flatten().tolist(), strict=True):
        if math.isnan(y):
            continue
        p = 1 / (1 + math.exp(-z))
        total += -(y * math.log(p) + (1 - y) * math.log(1 - p))
        count += 1
    return total / count if count else 0.0


def stages_and_targets(unknown: float) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    stages = [torch.randn(5, 4, generator=generator) * 2 for _ in range(4)]
    targets = (torch.rand(5, 4, generator=generator) < 0.4).float()
    targets[torch.rand(5, 4, generator=generator) < unknown] = NAN
    return stages, targets


@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_against_a_loop(unknown: float) -> None:
    stages, targets = stages_and_targets(unknown)
    means = [slow_mean(stage, targets) for stage in stages]
    got = lamp_loss(stages, targets, 0.3)
    assert got.item() == pytest.approx(means[-1] + 0.3 * sum(means[:-1]), rel=1e-5)


def test_lambda_zero_leaves_earlier_stages_alone() -> None:
    stages, targets = stages_and_targets(0.0)
    stages = [stage.requires_grad_() for stage in stages]
    lamp_loss(stages, targets, 0.0).backward()
    assert [stage.grad is not None for stage in stages] == [False, False, False, True]


def test_every_stage_gets_a_gradient() -> None:
    stages, targets = stages_and_targets(0.3)
    stages = [stage.requires_grad_() for stage in stages]
    lamp_loss(stages, targets, 0.2).backward()
    for stage in stages:
        assert stage.grad is not None
        assert torch.isfinite(stage.grad).all()
        assert ((stage.grad != 0) == ~torch.isnan(targets)).all()


def test_nothing_known_is_zero_without_nan_gradients() -> None:
    logits = torch.randn(3, 2).requires_grad_()
    loss = lamp_loss([logits, logits * 2], torch.full((3, 2), NAN), 0.5)
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()


def test_huge_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 1e4]]).requires_grad_()
    loss = lamp_loss([logits], torch.tensor([[0.0, 1.0, NAN]]))
    loss.backward()
    assert loss.item() == pytest.approx(1e4)
    assert torch.isfinite(logits.grad).all()


def test_no_rows() -> None:
    logits = torch.zeros(0, 3).requires_grad_()
    loss = lamp_loss([logits], torch.zeros(0, 3))
    loss.backward()
    assert loss.item() == 0


def test_mistakes_are_reported() -> None:
    with pytest.raises(DataError, match="at least one stage"):
        lamp_loss([], torch.zeros(1, 1))
    with pytest.raises(DataError, match=r"\(2, 3\).*\(2, 4\)"):
        lamp_loss([torch.zeros(2, 3)], torch.zeros(2, 4))
