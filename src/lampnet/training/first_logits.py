"""The logits of an untrained network, brought to where training can begin."""

from __future__ import annotations

import numpy as np
import torch

from lampnet.base_learners.stacking_weights import fit_shared
from lampnet.data.weights import taken
from lampnet.inference.examples import Examples
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.stacked import StackedLaMP
from lampnet.runtime.random_bytes import RandomBytes

SAMPLE_ROWS = 2_000
#: a gate that starts at zero gets no gradient
MIN_GATE = 0.05


def match_label_priors(network: StackedLaMP, train: Examples, seed: int) -> None:
    """Set gate and biases so that the first logits fit the training labels.

    Without base logits, the network's own logits are scaled. With them, what the messages add averages to zero.
    """
    if network.bias is None or network.gate is None:
        return
    sample = np.sort(np.random.default_rng(seed).permutation(len(train))[:SAMPLE_ROWS])
    fast = with_training_kernels(network, RandomBytes()).eval()
    parts = []
    with torch.inference_mode():
        for first in range(0, len(sample), 128):
            rows = sample[first : first + 128]
            given = train.label_input(rows)
            last = fast(train.nodes.batch(rows), given).stages[-1]
            parts.append(last if given.stacked_BL is None else last - given.stacked_BL)
    added_nL = torch.cat(parts).clone() - network.bias.detach()
    with torch.no_grad():
        if not network.config.base_learners:
            centre = added_nL.mean(0)
            logits, counts = (added_nL - centre).unsqueeze(-1).numpy(), taken(train.row_weights, sample)
            fitted = fit_shared(logits, train.truth(sample).numpy(), weights=counts)
            gate = torch.from_numpy(fitted.weights_LK[0]).clamp(min=MIN_GATE)
            network.gate.mul_(gate.squeeze())
            network.bias.copy_(torch.from_numpy(fitted.bias_L) - gate * centre)
        else:
            network.bias.copy_(-added_nL.mean(0))
