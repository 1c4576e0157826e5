"""int8 prediction: close to float32 where it is used, refused with a reason where it does not pay."""

import pytest
import torch
from torch import nn

from lampnet.config import ModelConfig
from lampnet.encoders.base import Embedding
from lampnet.encoders.nodes import NodeBatch
from lampnet.errors import ConfigError
from lampnet.model.build import build_network
from lampnet.model.kernels import int8
from lampnet.model.kernels.int8 import Int8Linear, check_int8_pays, quantised
from lampnet.model.label_graph import LabelGraph
from lampnet.model.stacked import StackedLaMP

L, S, B, WORDS = 13, 7, 5, 30


class Words(Embedding):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, width)

    def forward(self, batch: NodeBatch) -> tuple[torch.Tensor, torch.Tensor, None]:
        return self.vectors(batch.ids_BS), batch.present_BS, None


def network(**settings: object) -> StackedLaMP:
    torch.manual_seed(0)
    config = ModelConfig(width=32, base_learners=(), feature_steps=1, **settings)  # type: ignore[arg-type]
    return build_network(config, Words(32), LabelGraph("full", None, L)).eval()


def rows() -> NodeBatch:
    return NodeBatch(present_BS=torch.ones(B, S, dtype=torch.bool), ids_BS=torch.arange(B * S).view(B, S) % WORDS)


def test_an_int8_product_is_near_the_float_one() -> None:
    torch.manual_seed(0)
    plain = nn.Linear(64, 48)
    x = torch.randn(200, 64)
    with torch.inference_mode():
        wanted = plain(x)
        error = (Int8Linear(plain.weight, plain.bias)(x) - wanted).norm() / wanted.norm()
        assert 0 < error < 0.05
        assert (Int8Linear(plain.weight, plain.bias, relu=True)(x) >= 0).all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_int8_network_is_near_the_float_one_and_leaves_it_alone(norm: str) -> None:
    model = network(norm=norm)
    with torch.inference_mode():
        before = model(rows()).stages[-1]
        small = quantised(model)(rows()).stages[-1]
        after = model(rows()).stages[-1]
    torch.testing.assert_close(before, after)
    assert 0 < (small - before).norm() / before.norm() < 0.1


def test_int8_is_refused_where_it_is_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "int8_gain", lambda width: 0.83)
    with pytest.raises(ConfigError, match=r"int8 is refused: at width 32 .* 0\.83x"):
        check_int8_pays(32)
    monkeypatch.setattr(int8, "int8_gain", lambda width: 1.8)
    check_int8_pays(32)


def test_the_gain_is_a_measured_positive_number() -> None:
    assert int8.int8_gain(32, rounds=2) > 0
