"""The model card of a folder."""

from __future__ import annotations

from pathlib import Path


def test_the_card_states_data_scores_thresholds_and_limits_without_untrusted_markup(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    for part in ("## Data", "## Scores", "## Limits", "threshold", "seed 0", "50 training", "in 5 folds"):
        assert part in card
    assert "<o>" not in card
    assert "`b c`" in card
