"""Rows of several parts on real data: all together, each alone, texts joined, and ColumnTransformer + one-vs-rest.

    python benchmarks/row_parts.py --data-root DIR [--data reuters ...] [--page-only]

Writes docs/measurements/row_parts.json after each data set, and a section of docs/inputs.md. lampnet trains with the
preset `quick`. The rival reads each part with scikit-learn's usual transformer (tf-idf of words, Morgan counts,
standardised numbers) and fits one logistic regression per label; C and one cut-off for all labels are chosen on
out-of-fold probabilities of the training rows. Scores are of the official test rows (SIDER and Scene: of the split
that the registry gives); the intervals are paired bootstraps over these rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lampnet import LaMPClassifier
from lampnet.data.dataset import Dataset
from lampnet.data.splits import fold_numbers, parts_of
from lampnet.encoders.molecule import _molecule
from lampnet.encoders.molecule_features import WHOLE, fingerprints
from lampnet.readers.sources import Source

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = DOCS / "measurements" / "row_parts.json"
DRAWS = 2_000
#: each fold's molecules are predicted by models of the others
FOLDS = 5
#: all texts of a row as one
JOINED = "joined text"
TITLES = {
    "reuters": "Reuters: title and body",
    "sider": "SIDER: SMILES and 20 descriptors",
    "sider_folds": "SIDER, all molecules in five folds",
    "scene": "Scene: the first half of its columns, the second half as words",
}

Columns = dict[str, Any]


def reuters(root: str) -> tuple[Columns, np.ndarray, Columns, np.ndarray, dict[str, str]]:
    """The first line of a story is its title."""
    splits = Source(data="reuters21578", root=root).splits()
    parts = [splits.train, splits.test]
    if splits.valid is not None:
        raise SystemExit("Reuters came with validation rows; the benchmark expects its two official parts")
    found: list[Any] = []
    for part in parts:
        assert part is not None
        cut = [text.partition("\n") for text in part.rows]
        found += [{"title": [head for head, _, _ in cut], "body": [body for _, _, body in cut]}, part.indicator()]
    return found[0], found[1], found[2], found[3], {"title": "text", "body": "text"}


def sider(root: str) -> tuple[Columns, np.ndarray, Columns, np.ndarray, dict[str, str]]:
    """Descriptors are whole-molecule numbers by RDKit, as a chemist's table has them beside the structure."""
    splits = Source(data="sider", root=root).splits()
    assert splits.test is not None
    found: list[Any] = []
    for part in (splits.train, splits.test):
        found += [molecule_columns(part.rows), np.nan_to_num(part.indicator())]
    return found[0], found[1], found[2], found[3], MOLECULE_ROLES


MOLECULE_ROLES = {"smiles": "smiles"} | dict.fromkeys(WHOLE, "number")


def molecule_columns(smiles: Any) -> Columns:
    """Each molecule and its descriptors."""
    from rdkit.Chem import Descriptors

    molecules = [_molecule(text) for text in smiles]
    columns: Columns = {"smiles": list(smiles)}
    return columns | {name: [float(getattr(Descriptors, name)(m)) for m in molecules] for name in WHOLE}


Parts = tuple[Columns, np.ndarray, Columns, np.ndarray, dict[str, str]]


def sider_folds(root: str) -> Iterator[Parts]:
    """All molecules, the official parts together, each fold of them once as test rows."""
    splits = Source(data="sider", root=root).splits()
    rows = Dataset.joined([part for part in (splits.train, splits.valid, splits.test) if part is not None])
    for rest, own in parts_of(fold_numbers(len(rows), FOLDS, 0)):
        train, test = rows.take(rest), rows.take(own)
        truth = [np.nan_to_num(part.indicator()) for part in (train, test)]
        yield molecule_columns(train.rows), truth[0], molecule_columns(test.rows), truth[1], MOLECULE_ROLES


def scene(root: str) -> tuple[Columns, np.ndarray, Columns, np.ndarray, dict[str, str]]:
    """Columns of the second half become the words of a text: each word a column in its upper third in training."""
    splits = Source(data="scene", root=root).splits()
    assert splits.test is not None
    names = splits.train.rows.names
    half = len(names) // 2
    high = np.quantile(splits.train.rows.values[:, half:], 2 / 3, axis=0)
    found: list[Any] = []
    for part in (splits.train, splits.test):
        values = part.rows.values
        columns: Columns = {name: values[:, number].tolist() for number, name in enumerate(names[:half])}
        columns["words"] = [
            " ".join(f"{names[half + j]}" for j in np.flatnonzero(row > high)) for row in values[:, half:]
        ]
        found += [columns, part.indicator()]
    return found[0], found[1], found[2], found[3], dict.fromkeys(names[:half], "number") | {"words": "text"}


def lampnet_scores(
    train: Columns, Y: np.ndarray, test: Columns, roles: dict[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and label sets of the test rows."""
    given: dict[str, list[str]] = {}
    for name, role in roles.items():
        given.setdefault(role, []).append(name)
    model = LaMPClassifier(preset="quick", columns=given).fit(train, Y)
    return model.predict_proba(test), np.asarray(model.predict(test)) > 0


def rival_scores(train: Columns, Y: np.ndarray, test: Columns, roles: dict[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """ColumnTransformer + one-vs-rest logistic regression, C and one cut-off chosen out-of-fold."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    def morgan(smiles: Any) -> np.ndarray:
        return fingerprints([_molecule(text) for text in np.asarray(smiles).ravel()])

    steps: list[Any] = []
    numbers = [name for name, role in roles.items() if role == "number"]
    if numbers:
        steps.append(("numbers", StandardScaler(), numbers))
    steps += [
        (name, TfidfVectorizer(sublinear_tf=True, min_df=2), name) for name, role in roles.items() if role == "text"
    ]
    steps += [(name, FunctionTransformer(morgan), [name]) for name, role in roles.items() if role == "smiles"]

    def made(C: float) -> Any:
        learner = OneVsRestClassifier(LogisticRegression(C=C, solver="liblinear"))
        return make_pipeline(ColumnTransformer(steps), learner)

    X, T = pd.DataFrame(train), pd.DataFrame(test)
    best: tuple[float, float, float] = (-1.0, 1.0, 0.5)
    for C in (1.0, 10.0):
        proba = np.zeros(Y.shape)
        for fit, held in KFold(3, shuffle=True, random_state=0).split(X):
            proba[held] = made(C).fit(X.iloc[fit], Y[fit]).predict_proba(X.iloc[held])
        for cut in np.arange(0.1, 0.61, 0.05):
            best = max(best, (float(row_f1(Y, proba >= cut).mean()), C, float(cut)))
    proba = made(best[1]).fit(X, Y).predict_proba(T)
    return proba, proba >= best[2]


def row_f1(truth: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Example-F1 of each row; 1 where both sets are empty."""
    both, sizes = (truth * chosen).sum(axis=1), truth.sum(axis=1) + chosen.sum(axis=1)
    return np.where(sizes == 0, 1.0, 2 * both / np.maximum(sizes, 1))


def row_precision(truth: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """Average precision of each row's ranking of the labels; NaN for rows without labels."""
    order = np.argsort(-proba, axis=1, kind="stable")
    hits = np.take_along_axis(truth, order, axis=1) > 0
    precision = np.cumsum(hits, axis=1) / np.arange(1, truth.shape[1] + 1)
    with np.errstate(invalid="ignore"):
        found: np.ndarray = (precision * hits).sum(axis=1) / hits.sum(axis=1)
    return found


def interval(gain: np.ndarray) -> list[float]:
    """Mean of a paired difference over the rows, and its 95% bootstrap interval."""
    gain = gain[~np.isnan(gain)]
    random = np.random.default_rng(0)
    means = [float(gain[random.integers(0, len(gain), len(gain))].mean()) for _ in range(DRAWS)]
    return [round(float(x), 4) for x in (gain.mean(), *np.quantile(means, [0.025, 0.975]))]


def measure(name: str, root: str) -> dict[str, Any]:
    """All systems on one data set."""
    if name == "sider_folds":
        runs = list(sider_folds(root))
    else:
        runs = [{"reuters": reuters, "sider": sider, "scene": scene}[name](root)]
    by_fold = [scores_by_row(*run) for run in runs]
    by_row = {
        system: [np.concatenate(scores) for scores in zip(*(fold[system] for fold in by_fold), strict=True)]
        for system in by_fold[0]
    }
    _, Y, _, truth, _ = runs[0]
    tested = sum(len(run[3]) for run in runs)
    found: dict[str, Any] = {"train": len(Y), "test": tested, "labels": truth.shape[1], "systems": {}}
    for system, rows in by_row.items():
        f1, precision = (float(np.nanmean(scores)) for scores in rows)
        found["systems"][system] = {"example_f1": round(f1, 4), "row_average_precision": round(precision, 4)}
        if system != "all parts":
            gains = [interval(ours - theirs) for ours, theirs in zip(by_row["all parts"], rows, strict=True)]
            found["systems"][system] |= {"gain_f1": gains[0], "gain_precision": gains[1]}
        print(name, system, found["systems"][system], flush=True)
    return found


def scores_by_row(
    train: Columns, Y: np.ndarray, test: Columns, truth: np.ndarray, roles: dict[str, str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Example-F1 and average precision of each test row, for each system."""
    parts: dict[str, dict[str, str]] = {"all parts": roles}
    for role in dict.fromkeys(roles.values()):
        of_role = [column for column in roles if roles[column] == role]
        groups = [[column] for column in of_role] if role == "text" else [of_role]
        parts |= {
            f"{group[0] if role != 'number' else 'numbers'} alone": dict.fromkeys(group, role) for group in groups
        }
    if set(roles.values()) == {"text"}:
        for held in (train, test):
            held[JOINED] = ["\n".join(cells) for cells in zip(*(held[column] for column in roles), strict=True)]
        parts[JOINED] = {JOINED: "text"}
    by_row: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for system, own in [*parts.items(), ("ColumnTransformer + one-vs-rest", roles)]:
        began = time.monotonic()
        scores = rival_scores if system.startswith("ColumnT") else lampnet_scores
        pick = [{column: held[column] for column in own} for held in (train, test)]
        proba, chosen = scores(pick[0], Y, pick[1], own)
        by_row[system] = row_f1(truth, chosen), row_precision(truth, proba)
        print(system, f"{time.monotonic() - began:.0f} s", flush=True)
    return by_row


RULE = """## Rows of several parts

A row may have any number of parts: texts, numbers, categories, dates, a SMILES, a DNA window, a picture's path, a
vector, a list of words. `fit(df, Y)`, `fit({"title": [...], "year": [...]}, Y)` and `lampnet train films.csv` (CSV,
TSV, Parquet, Arrow, JSON lines) read each column by its role; each part is encoded as it is alone, its nodes get the
vector of their part and stand in one graph with the others, and its features stand beside theirs for the base
learners, every part scaled to a mean square length of one. A row may lack a part. Explanations name part and place:
`plot: storm`, `year = 1999`.

What a column of strings is for is guessed from its first 200 values by one rule, and stated in the log: `dna` or
`image` where all are windows of one width or names of picture files; `smiles` where the column's name says so; `date`
for dates whose day is clear (2024-05-31, 31.05.2024, 31 May 2024); **`text` where values have 1.5 words or more on
average and more than half are distinct, or five words or more and more than a tenth are distinct**; otherwise
`category`. In files, columns that are empty, count the rows or name each row by a word of its own are left out, and the
log says so. Tables of pyarrow and polars are read as DataFrames are. Roles are set with
`--columns text=title,plot --columns category=country` (repeated options add up; columns that are not named are then
left out) and in Python with `LaMPClassifier(columns={"text": ["title", "plot"], "category": "country"})` (columns that
are not named are guessed). They are kept with the model; in Python `model.columns_` has them. Where a column is guessed
to be a category although most of its values are distinct or have several words, Python warns and the log says so."""


MEASURED_HOW = """\
Made by `benchmarks/row_parts.py`: lampnet's preset `quick` on all parts of a row, on each part alone and on all
texts joined to one, and scikit-learn's ColumnTransformer with one logistic regression per label on all parts.
Example-F1 is that of each side's own decision, chosen out-of-fold on training rows; average precision is that of a
row's labels, mean over the test rows. Gains are those of all parts over the system of the line, with 95% bootstrap
intervals over the test rows; one fit each. lampnet's features of a SMILES hold such descriptors already. All parts
together have a higher F1 than ColumnTransformer, and than the best part alone where the parts add something. Texts that
speak of the same things are better joined to one: as parts, a word of the title and the same word of the body are two
features. Join such columns before the training; keep apart those in which words mean different things. SIDER's 143
test molecules are too few to tell all parts from the SMILES alone. Over all molecules, each predicted by a model of the
other four folds, the descriptors add nothing: average precision is level, and F1 is .002 lower. Leave out numbers that
are computed from another part of the row."""


def section(measured: dict[str, Any]) -> list[str]:
    """The section of docs/inputs.md."""
    lines = [*RULE.split("\n"), ""]
    if measured:
        lines += [
            *MEASURED_HOW.split("\n"),
            "",
            "| data | system | example-F1 | average precision | gain in F1 | gain in precision |",
            "|---|---|---|---|---|---|",
        ]
    for name in TITLES:
        for system, scores in measured.get(name, {"systems": {}})["systems"].items():
            gains = [_shown(scores[key]) if key in scores else "" for key in ("gain_f1", "gain_precision")]
            lines.append(
                f"| {TITLES[name]} | {system} | {scores['example_f1']:.3f} | {scores['row_average_precision']:.3f} | "
                f"{' | '.join(gains)} |"
            )
    return [*lines, ""]


def _shown(gain: list[float]) -> str:
    mean, low, high = gain
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    import every_kind

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--data", nargs="*", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    for name in [] if options.page_only else options.data:
        found = measure(name, options.data_root)
        measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}  # another run may have written to it
        measured[name] = found
        MEASURED.write_text(json.dumps(measured, indent=1) + "\n")
    (DOCS / "inputs.md").write_text(every_kind.page(json.loads(every_kind.MEASURED.read_text())))


if __name__ == "__main__":
    main()
