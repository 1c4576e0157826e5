"""The loss of the paper: binary cross-entropy of the last stage and, with a smaller weight, of every earlier one.

Axes: B rows of a batch, L labels. A NaN target is an unknown label: it enters neither sum nor mean.

>>> import math
>>> logits = torch.zeros(1, 2)
>>> math.isclose(lamp_loss([logits], torch.tensor([[1.0, float("nan")]])).item(), math.log(2), rel_tol=1e-6)
True
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from lampnet.errors import DataError


def lamp_loss(
    stage_logits: Sequence[Tensor],
    targets_BL: Tensor,
    intermediate_weight: float = 0.0,
    entry_weight_BL: Tensor | None = None,
) -> Tensor:
    """L_LaMP = L_out + λ Σ_stages L_int, each the mean over the known labels of the batch.

    Parameters
    ----------
    stage_logits : logits (B, L) of the stages 1.1, 1.2, ..., T.2; the last is the prediction
    targets_BL : 1, 0, or NaN where unknown
    intermediate_weight : λ, the weight of each earlier stage
    entry_weight_BL : what each entry counts, 1 on average over all rows; a batch of heavy rows has a larger loss

    Returns
    -------
    A scalar; 0 with zero gradients when no label of the batch is known.
    """
    if not stage_logits:
        raise DataError("the loss needs the logits of at least one stage")
    for logits in stage_logits:
        if logits.shape != targets_BL.shape:
            raise DataError(
                f"logits {tuple(logits.shape)} and targets {tuple(targets_BL.shape)} must be the same shape"
            )
    if targets_BL.numel() == 0:
        return sum((logits.sum() * 0.0 for logits in stage_logits), torch.zeros(()))
    known_BL = ~torch.isnan(targets_BL)
    # NaN is replaced before anything is computed: 0 * NaN would still be NaN in the gradient.
    truth_BL = torch.where(known_BL, targets_BL, torch.zeros_like(targets_BL))
    plain_mean = entry_weight_BL is None and bool(known_BL.all())

    def mean_loss(logits_BL: Tensor) -> Tensor:
        target_BL = truth_BL.to(logits_BL.dtype)
        if plain_mean:
            return functional.binary_cross_entropy_with_logits(logits_BL, target_BL)
        entry_BL = functional.binary_cross_entropy_with_logits(logits_BL, target_BL, reduction="none")
        if entry_weight_BL is not None:
            entry_BL = entry_BL * entry_weight_BL.to(entry_BL.dtype)
        entry_BL = torch.where(known_BL, entry_BL, torch.zeros_like(entry_BL))
        return entry_BL.sum() / known_BL.sum().clamp(min=1)

    *earlier, final = stage_logits
    loss = mean_loss(final)
    if intermediate_weight:
        for logits in earlier:
            loss = loss + intermediate_weight * mean_loss(logits)
    return loss
