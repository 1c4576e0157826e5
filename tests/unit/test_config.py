"""Settings are read, checked together, and refused with a sentence before anything runs."""

from __future__ import annotations

import pytest

from lampnet.config import Config
from lampnet.errors import ConfigError

FAST = Config.preset("fast")


@pytest.mark.parametrize("names", [("model.width", "model.heads"), ("model.heads", "model.width")])
def test_settings_that_depend_on_each_other_can_be_changed_together(names: tuple[str, str]) -> None:
    values = {"model.width": "90", "model.heads": "3"}
    changed = FAST.updated({name: values[name] for name in names})
    assert (changed.model.width, changed.model.heads) == (90, 3)
    with pytest.raises(ConfigError, match=r"model.width=90 cannot be shared by model.heads=4"):
        FAST.updated({"model.width": "90"})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("training.metric", "f1", "'example_f1', 'micro_f1'"),
        ("model.dropout", "0.999", "from 0 to 0.99"),
        ("training.learning_rate", "inf", "must be a number"),
        ("training.time_budget", float("inf"), "must be a number"),
        ("training.epochs", "1.5", "a whole number"),
        ("training.epochs", 10**400, "a whole number"),
        ("model.dropout", 10**400, "must be a number"),
        ("model.witdh", 1, "did you mean 'model.width'"),
        ("width", 1, "there is no setting 'width'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(name: str, value: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        FAST.updated({name: value})


def test_what_is_saved_is_read_again() -> None:
    changed = FAST.updated({"model.width": 96, "model.heads": 3, "label_graph": "edgeless", "input.tfidf": False})
    assert Config.from_json(changed.to_json()) == changed
    with pytest.raises(ConfigError, match="must be a JSON object"):
        Config.from_json({"model": 3})


def test_the_paper_preset_has_what_the_paper_states() -> None:
    paper = Config.preset("paper")
    model, training = paper.model, paper.training
    assert (model.width, model.heads, model.steps, model.feature_steps) == (512, 4, 2, 2)
    assert (model.norm, model.score_scale, model.readout, model.dropout) == ("post", "width", "tied", 0.1)
    assert (model.base_learners, model.shortlist, training.folds) == ((), 0, 1)
    assert (training.optimizer, training.learning_rate, training.batch_size) == ("adam", 2e-4, 32)
    assert (training.weight_decay, training.schedule, training.warmup_steps, training.average) == (0, "constant", 0, 0)
    assert training.start == "random"
    assert (paper.input.text_nodes, paper.input.positions, paper.input.atoms) == ("sequence", "plain", "element")
    assert not paper.input.both_strands
