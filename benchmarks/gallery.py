"""The paper's three pictures for five data sets: `python benchmarks/gallery.py --data-root FOLDER`.

Trains a small model on each data set for a few minutes (a part of the rows, few epochs: the pictures show what
an explanation looks like, not the best score), explains one test row and writes `docs/gallery/`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from lampnet.config import Config
from lampnet.data.splits import Splits
from lampnet.explain.explain_rows import explain
from lampnet.explain.explanation import Explanation
from lampnet.explain.report.pictures import write_pictures
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.fit import FitRun, fit
from lampnet.readers.named.registry import describe, load

ROOT = Path(__file__).resolve().parent.parent
SEED = 0
#: for each data set: training rows, and settings that differ from the preset `fast`
SETS: dict[str, tuple[int, dict[str, object]]] = {
    "digits": (2000, {"training.epochs": 8}),
    "bibtex": (2500, {"training.epochs": 3, "model.width": 64}),
    "reuters21578": (2500, {"training.epochs": 3, "model.width": 64, "input.max_nodes": 160}),
    "sider": (1141, {"training.epochs": 6, "model.width": 64, "model.feature_steps": 1}),
    "yeast_chipexo": (400, {"training.epochs": 2, "model.width": 64, "model.base_learners": "none"}),
}


def smaller(splits: Splits, rows: int) -> Splits:
    """At most so many training rows, and a fifth as many to choose decisions on."""
    splits = splits.with_validation(0.1, SEED)
    assert splits.valid is not None
    random = np.random.default_rng(SEED)

    def draw(n: int, most: int) -> np.ndarray:
        return np.sort(random.permutation(n)[:most])

    return Splits(
        train=splits.train.take(draw(len(splits.train), rows)),
        valid=splits.valid.take(draw(len(splits.valid), max(1, rows // 5))),
        test=splits.test,
    )


def trained(name: str, splits: Splits, keep: Path | None) -> FittedModel:
    """A briefly trained model; one kept from an earlier run is used again."""
    if keep is not None and (keep / name / "model.json").exists():
        return load_model(keep / name)
    rows, changes = SETS[name]
    config = Config.preset("fast").updated({"training.seed": SEED, "training.threads": 1, **changes})
    model = fit(smaller(splits, rows), config, run=FitRun(log=lambda sentence: print(f"  {sentence}", flush=True)))
    if keep is not None:
        save_model(model, keep / name)
    return model


def telling(explanations: list[Explanation]) -> Explanation:
    """The row with four to eight true labels, most of them found; the first of equals."""

    def worth(e: Explanation) -> float:
        positive = e.positive()
        found = float(e.chosen[positive].sum())
        return found / max(1, len(positive)) - 0.2 * abs(min(8, max(4, len(positive))) - len(positive))

    return max(explanations, key=worth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", help="the folder of the named data sets (else LAMPNET_DATA)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "gallery")
    parser.add_argument("--models", type=Path, help="keep the trained models here and use them again")
    parser.add_argument("names", nargs="*", default=list(SETS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.names or list(SETS):
        print(name, flush=True)
        started = time.perf_counter()
        splits = load(name, given.data_root, SEED)
        model = trained(name, splits, given.models)
        assert splits.test is not None
        rows = range(min(80, len(splits.test)))
        chosen = telling(explain(model, splits.test, rows))
        files = write_pictures(chosen, given.out, name, formats=("png",))
        seconds = time.perf_counter() - started
        note = {"title": describe(name).title, "row": chosen.id, "kind": chosen.input["kind"], "rule": chosen.rule,
                "train_rows": model.metadata["rows"]["train"], "epochs": model.metadata["epochs"],
                "seed": SEED}  # fmt: skip
        (given.out / f"{name}.json").write_text(json.dumps(note, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        for file in files:
            print(f"  {file.name}: {file.stat().st_size // 1024} KB", flush=True)
        print(f"  {seconds:.0f} s", flush=True)
    (given.out / "README.md").write_text(gallery_page(given.out), encoding="utf-8")


def gallery_page(folder: Path) -> str:
    """The gallery's own page, from the notes beside the pictures."""
    lines = [
        "# Gallery",
        "",
        "The three pictures of the paper for one test row of each data set, made by",
        "`python benchmarks/gallery.py --data-root FOLDER`. The models are trained briefly on a part of the rows, so",
        "that all five take minutes: they show what an explanation looks like, not the best score. The row is not",
        "typical: of the first 80 test rows it is the one with four to eight true labels of which most were found.",
        "True labels are red. How far attention can be trusted is measured in [explanations](../explanations.md).",
    ]
    for name in SETS:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        note = json.loads(path.read_text(encoding="utf-8"))
        lines += ["", f"## {note['title']}", ""]
        lines.append(
            f"Row `{note['row']}`; trained on {note['train_rows']:,} rows for {note['epochs']} epochs, "
            f"seed {note['seed']}; decision: {note['rule']}."
        )
        for part, words in (
            ("stages", "probabilities after every stage"),
            ("to_input", "label-to-feature attention"),
            ("to_labels", "label-to-label attention"),
        ):
            lines += ["", f"![{note['title']}: {words}]({name}_{part}.png)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
