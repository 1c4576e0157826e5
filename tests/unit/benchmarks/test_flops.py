"""The FLOP counter against a count by hand and against torch's own."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.flops import attention_flops, forward_flops, training_flops
from lampnet.config import ModelConfig
from lampnet.encoders.base import Embedding
from lampnet.encoders.nodes import NodeBatch
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import LabelInput
from lampnet.model.stacked import StackedLaMP


def test_a_network_counted_by_hand() -> None:
    """d=2, L=3, S=5, one step: every product written down."""
    config = ModelConfig(width=2, heads=1, steps=1, base_learners=())
    keys_and_values = 2 * (5 * 2 * 2)
    input_scores_and_sums = 2 * (3 * 5 * 2)
    collected, updated = 3 * 2 * 2, 2 * (3 * 2 * 2)
    queries_keys_values = 3 * (3 * 2 * 2)
    label_scores_and_sums = 2 * (3 * 3 * 2)
    readouts = 2 * (3 * 2)
    by_hand = keys_and_values + input_scores_and_sums + collected + updated
    by_hand += queries_keys_values + label_scores_and_sums + collected + updated + readouts
    assert forward_flops(config, labels=3, nodes=5) == 2 * by_hand == 512
    assert training_flops(config, labels=3, nodes=5) == 3 * 512
    assert attention_flops(config, labels=3, nodes=5) == 2 * (input_scores_and_sums + label_scores_and_sums)


def test_base_learners_steps_features_and_a_shortlist_count() -> None:
    plain = ModelConfig(width=2, heads=1, steps=1, base_learners=())
    base = forward_flops(plain, 3, 5)
    stacked = ModelConfig(width=2, heads=1, steps=1, base_learners=("linear",))
    assert forward_flops(stacked, 3, 5) - base == 2 * 3 * 2 * 2  # every row has its own queries
    features = ModelConfig(width=2, heads=1, steps=1, base_learners=(), feature_steps=1)
    assert forward_flops(features, 3, 5) - base == 2 * 5 * (4 * 4 + 2 * 5 * 2 + 2 * 4)
    few = ModelConfig(width=2, heads=1, steps=1, base_learners=("linear",), shortlist=3)
    assert forward_flops(few, 30, 5) - forward_flops(stacked, 3, 5) == 2 * 30 * 2  # the base logits of all 30


class Given(Embedding):
    def forward(self, batch: NodeBatch) -> tuple[torch.Tensor, torch.Tensor, None]:
        assert batch.vectors_BSF is not None
        return batch.vectors_BSF, batch.present_BS, None


def test_torch_counts_the_same_products_in_the_real_network() -> None:
    config = ModelConfig(width=16, heads=4, steps=2, feature_steps=1, base_learners=("linear",))
    rows, labels, nodes = 3, 11, 7
    model = StackedLaMP(config, Given(), LabelGraph("full", None, labels)).eval()
    batch = NodeBatch(present_BS=torch.ones(rows, nodes, dtype=torch.bool), vectors_BSF=torch.randn(rows, nodes, 16))
    label_input = LabelInput(base_logits_BLK=torch.randn(rows, labels, 1))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        # The written-out attention (returned) is made of products that torch counts.
        model(batch, label_input, return_attention=True)
    readouts = 2 * rows * 2 * config.steps * labels * 16  # sums, not products, for torch
    start = 2 * rows * labels * 1 * 16  # base_learners times its vector
    counted = counter.get_total_flops() + readouts - start
    assert counted == rows * forward_flops(config, labels, nodes)
