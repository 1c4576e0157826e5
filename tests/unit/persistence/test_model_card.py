"""The model card of a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lampnet.persistence.model_card import model_card
from lampnet.persistence.model_folder import load_model


def test_the_card_states_data_scores_thresholds_and_limits_without_untrusted_markup(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    for part in ("## Data", "## Scores", "## Limits", "threshold", "seed 0", "50 training", "in 5 folds"):
        assert part in card
    assert "<o>" not in card
    assert "`b c`" in card


@pytest.mark.parametrize("name", ["songs", "a: b # 'c' \"d\" --- {e}", "---", ""])
def test_model_hubs_can_read_the_card(folder: Path, name: str) -> None:
    """Whatever the data is called, the parser of the hub finds the same metadata."""
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    model = load_model(folder)
    scores = {"example_f1": 0.5, "micro_f1": float("nan"), "subset_accuracy": 0.25}
    named = replace(model, metadata=model.metadata | {"data": name, "valid_scores": scores})
    card = hub.ModelCard(model_card(named))
    assert card.data.library_name == "lampnet"
    assert card.data.license == "unknown"
    assert {"lampnet", "multi-label-classification"} <= set(card.data.tags)
    assert card.data.metrics == ["accuracy", "f1"]
    found = {(one.metric_type, one.metric_value) for one in card.data.eval_results}
    assert found == {("f1", 0.5), ("accuracy", 0.25)}
    assert card.text.lstrip().startswith("# A lampnet model for")
