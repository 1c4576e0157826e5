"""How gradients become steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from lampnet.config import TrainingConfig

BETAS, EPS = (0.9, 0.999), 1e-8


class Adam:
    """Adam or AdamW, in one fused step per group.

    The arithmetic is torch's. Its optimizer classes are not used because making one imports torch's compiler, which
    takes longer than a small training.
    """

    def __init__(self, groups: list[dict[str, Any]], learning_rate: float, decoupled: bool) -> None:
        self.param_groups = [{"lr": learning_rate, **group} for group in groups]
        self.decoupled = decoupled
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if not moved:
                continue
            states = [self._state_of(p) for p in moved]
            (adamw if self.decoupled else adam)(
                moved,
                [p.grad for p in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                fused=True,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=EPS,
                maximize=False,
            )

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def warm_up(step: int, steps: int, warmup_steps: int) -> float:
    """The share of the learning rate at one of `steps` steps: it rises over `warmup_steps`, at most a quarter of all.

    >>> warm_up(0, 10_000, 200), warm_up(0, 40, 200), warm_up(9, 40, 200)
    (0.005, 0.1, 1.0)
    """
    return min(1.0, (step + 1) / max(1, min(warmup_steps, steps // 4)))


def make_optimizer(parameters: list[torch.nn.Parameter], config: TrainingConfig) -> Adam:
    """Adam or AdamW over these parameters."""
    # Vectors and biases (norms, gates) are not decayed: only matrices grow without need.
    matrices = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return Adam([g for g in groups if g["params"]], config.learning_rate, config.optimizer == "adamw")
