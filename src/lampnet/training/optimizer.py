"""How gradients become steps."""

from __future__ import annotations

import torch

from lampnet.config import TrainingConfig


def make_optimizer(parameters: list[torch.nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    """Adam or AdamW over these parameters, in one fused step."""
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # Vectors and biases (norms, gates) are not decayed: only matrices grow without need.
    matrices = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return kind([g for g in groups if g["params"]], lr=config.learning_rate, betas=(0.9, 0.999), eps=1e-8, fused=True)
