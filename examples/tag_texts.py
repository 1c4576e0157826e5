"""Tag Reuters news with topics, look at the scores, and ask why.

    python examples/tag_texts.py DATA_FOLDER [10m]

DATA_FOLDER holds `reuters21578/` (`lampnet data fetch reuters21578 --data-root DATA_FOLDER`); the second
word is the time that training may take.
"""

from __future__ import annotations

import sys

from lampnet import LaMPClassifier, load_data


def main() -> None:
    folder, budget = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "10m"
    data = load_data("reuters21578", data_root=folder)
    train, test = data.train, data.test
    sets = [{train.label_names[j] for j in row.indices} for row in train.labels]
    model = LaMPClassifier(time_budget=budget, verbose=1).fit(train.rows, sets)
    truth = [{test.label_names[j] for j in row.indices} for row in test.labels]
    print(f"example-F1 on {len(truth)} test rows: {model.score(test.rows, truth):.3f}")
    for tags, text in zip(model.predict_labels(test.rows[:3]), test.rows, strict=False):
        print(tags, "|", " ".join(text.split())[:80])
    why = model.explain(test.rows[:1])[0].to_json()
    for stage, probabilities in zip(why["stages"], why["stage_proba"], strict=True):
        print(stage, dict(zip(why["labels"], [round(p, 2) for p in probabilities], strict=True)))


if __name__ == "__main__":
    main()
