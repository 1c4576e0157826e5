"""Training of the network that predicts labels from known labels: short, in memory, on logits and labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.base_learners.label_dependence import CrossFittedDependence
from lampnet.base_learners.shift_weights import ShiftWeights
from lampnet.config import TrainingConfig
from lampnet.model.kernels.byte_dropout import ByteResidual
from lampnet.model.kernels.fused_training import FusedMessagePassing
from lampnet.model.kernels.swap import block_as
from lampnet.model.label_states import LabelStates
from lampnet.model.lamp import MessagePassing
from lampnet.runtime.random_bytes import RandomBytes
from lampnet.training.known_masks import draw_known
from lampnet.training.loss import lamp_loss
from lampnet.training.optimizer import make_optimizer, warm_up

GoesOn = Callable[[], bool]


class LabelledLogits:
    """Labelled rows as this training needs them.

    Y_nL       labels, NaN where unknown
    logits_nL  what the input says, out-of-fold
    fold_n     the fold of each row: its shifts come from the other folds
    """

    def __init__(
        self, Y_nL: np.ndarray, logits_nL: np.ndarray, fold_n: np.ndarray, dependence: CrossFittedDependence
    ) -> None:
        self.Y_nL, self.logits_nL, self.fold_n, self.dependence = Y_nL, logits_nL, fold_n, dependence

    def given(self, rows: np.ndarray, states_BL: np.ndarray, weights: ShiftWeights) -> tuple[Tensor, ...]:
        """What the network is given about these rows where `states_BL` are known; first the weighted logits."""
        logits_BL = self.logits_nL[rows]
        shifts_BLC = self.dependence.shifts(logits_BL, states_BL, self.fold_n[rows])
        initial_BL = weights.shifted(logits_BL, shifts_BLC, states_BL)
        return tuple(map(torch.from_numpy, (initial_BL, logits_BL, shifts_BLC, states_BL.astype(np.int64))))


def train_label_states(
    network: LabelStates,
    data: LabelledLogits,
    weights: ShiftWeights,
    rows: np.ndarray,
    config: TrainingConfig,
    goes_on: GoesOn,
) -> LabelStates | None:
    """Train on these rows for `config.epochs`; the running average of the weights is kept.

    goes_on  asked after every step; where it says no, there is no network
    """
    random, drops = np.random.default_rng(config.seed), RandomBytes()
    parameters = list(network.parameters())
    optimizer = make_optimizer(parameters, config)
    average = [p.detach().clone() for p in parameters]
    trained = _with_training_kernels(network, drops).train()
    batches = math.ceil(len(rows) / config.batch_size)
    step, steps = 0, batches * config.epochs
    for _ in range(config.epochs):
        for batch in np.array_split(random.permutation(rows), batches):
            drops.reseed((config.seed, step))
            for group in optimizer.param_groups:
                warm = warm_up(step, steps, config.warmup_steps)
                group["lr"] = config.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
            Y_BL = data.Y_nL[batch]
            states_BL = draw_known(Y_BL, data.logits_nL[batch], random)
            final = trained(*data.given(batch, states_BL, weights))
            targets = torch.from_numpy(np.where(states_BL != 0, np.nan, Y_BL).astype(np.float32))
            loss = lamp_loss([final], targets)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(parameters, config.clip or math.inf)
            optimizer.step()
            decay = min(config.average, (1 + step) / (10 + step))
            with torch.no_grad():
                torch._foreach_lerp_(average, [p.detach() for p in parameters], 1 - decay)
            step += 1
            if not goes_on():
                return None
    with torch.no_grad():
        for parameter, kept in zip(parameters, average, strict=True):
            parameter.copy_(kept)
    return network.eval()


def _with_training_kernels(network: LabelStates, random: RandomBytes) -> LabelStates:
    """A copy that trains faster, sharing its weights."""
    made = copy(network)
    made._modules = dict(network._modules)
    blocks = []
    for block in network.yy:
        assert isinstance(block, MessagePassing)
        fused = block_as(FusedMessagePassing if type(block) is MessagePassing else type(block), block)
        fused._modules["residual"] = ByteResidual(block.residual.chance, random)
        blocks.append(fused)
    made._modules["yy"] = nn.ModuleList(blocks)
    return made
