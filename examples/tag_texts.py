"""Tag comments with emotions, look at the scores and at what moved a label, and leave everything to tag by hand.

    python examples/tag_texts.py [FOLDER]

The comments come with lampnet. FOLDER (./tagging by default) gets the model, and comments to tag on the page of
`lampnet serve`.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from lampnet import Dataset, LaMPClassifier, load_data


def label_sets(part: Dataset) -> list[set[str]]:
    return [{part.label_names[j] for j in row.indices} for row in part.labels]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tagging")
    folder.mkdir(parents=True, exist_ok=True)
    data = load_data("goemotions-sample")
    model = LaMPClassifier(preset="quick", verbose=1).fit(data.train.rows, label_sets(data.train))
    print(f"example-F1 on {len(data.test)} comments: {model.score(data.test.rows, label_sets(data.test)):.3f}")
    for tags, text in zip(model.predict_labels(data.test.rows[:3]), data.test.rows, strict=False):
        print(", ".join(tags), "|", text[:80])
    moved = model.suggest("Thank you, I love it!", known=["gratitude"])[0]
    print(f"once gratitude is known, next comes {moved['label']} with a probability of {moved['proba']:.2f}")
    model.save(folder / "emotions-model")
    with (folder / "comments.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["text"], *([text] for text in data.test.rows)])


if __name__ == "__main__":
    main()
