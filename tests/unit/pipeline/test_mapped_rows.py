"""Mapped rows give the numbers of rows in memory, and damage is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners.protocol import FOLDS
from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import fold_numbers, hashed_folds
from lampnet.encoders import make_encoder
from lampnet.errors import ConfigError, DataError
from lampnet.inference.predictor import FittedModel
from lampnet.pipeline.fit import fit
from lampnet.pipeline.mapped_rows import MappedRows, is_prepared, open_prepared
from lampnet.pipeline.prepare import WholeInChunks, prepare, prepare_source
from lampnet.readers.sources import Source

WORDS = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree", "house", "road", "night", "day", "rain", "sun"])
CONFIG = Config().updated(
    {
        "input.min_count": 1,
        "model.width": 16,
        "model.heads": 2,
        "training.epochs": 2,
        "training.threads": 1,
        "training.batch_size": 16,
        "training.warmup_steps": 5,
    }
)


def documents(rows: int = 150, seed: int = 0) -> Dataset:
    """Texts of one to nine words; a document has the label of each of the first four words in it."""
    draw = np.random.default_rng(seed)
    drawn = [draw.choice(WORDS, size=draw.integers(1, 10)) for _ in range(rows)]
    labels = np.array([[word in text for word in WORDS[:4]] for text in drawn], dtype=np.float32)
    return Dataset(
        name="documents",
        kind="text",
        rows=[" ".join(text) for text in drawn],
        labels=sparse.csr_matrix(labels),
        label_names=tuple(WORDS[:4]),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("prepared") / "rows"
    prepare(WholeInChunks(documents(), size=40), target, CONFIG)
    return target


def copy_of(folder: Path, target: Path) -> Path:
    for path in folder.rglob("*"):
        if path.is_file():
            (target / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(folder)).write_bytes(path.read_bytes())
    return target


def test_mapped_rows_are_the_encoded_rows(folder: Path) -> None:
    prepared, data = open_prepared(folder), documents()
    train, valid = prepared.parts["train"], prepared.parts["valid"]
    assert (len(train), len(valid)) == (135, 15)
    # Every row is in exactly one part: the parts' rows together are the data's rows.
    held = np.random.default_rng(0).permutation(150)[:15]
    rows = np.setdiff1d(np.arange(150), held)
    expected = prepared.encoder.encode([data.rows[row] for row in rows]).nodes
    assert np.array_equal(expected.offsets, train.nodes.offsets)
    assert np.array_equal(expected.ids, train.nodes.ids)
    assert np.array_equal(expected.values, train.nodes.values)
    assert np.array_equal(train.truth(np.arange(135)).numpy(), data.indicator()[rows])
    assert np.array_equal(valid.truth(np.arange(15)).numpy(), data.indicator()[np.sort(held)])
    some = np.array([7, 3, 100])
    assert np.array_equal(train.take(some).targets, data.indicator()[rows[some]])
    assert np.array_equal(np.load(folder / "train" / "ids.npy"), train.nodes.ids)


def test_base_logits_of_rows_that_were_fitted_on_are_out_of_fold(folder: Path) -> None:
    prepared, data = open_prepared(folder), documents()
    rows = np.setdiff1d(np.arange(150), np.random.default_rng(0).permutation(150)[:15])
    train = data.take(rows)
    encoder = make_encoder("text", CONFIG.input).fit(train.rows)
    expected = Stack(("linear",)).fit(encoder.encode(train.rows).features, train.indicator(), seed=0)
    assert np.allclose(prepared.parts["train"].base_logits, expected, atol=1e-5)
    assert prepared.stack is not None
    seen = prepared.stack.logits(prepared.encoder.encode(train.rows).features)
    assert not np.allclose(prepared.parts["train"].base_logits, seen, atol=1e-2)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 60 rows were too many to hold in memory."""
    monkeypatch.setattr("lampnet.pipeline.prepare.ROWS_IN_MEMORY", 60)


@pytest.mark.usefixtures("streamed")
def test_many_rows_are_all_learned_from_and_get_out_of_fold_logits(tmp_path: Path) -> None:
    data, truth = documents(), documents().indicator()
    prepare(WholeInChunks(data, size=40), tmp_path / "a", CONFIG)
    a = open_prepared(tmp_path / "a")
    rows = np.setdiff1d(np.arange(150), np.random.default_rng(0).permutation(150)[:15])
    own = np.flatnonzero(hashed_folds(rows, 2, 0) == 0)
    # Other labels in one fold change the logits of the other fold, and of no row of their own, but for the scale.
    truth[rows[own]] = 1 - truth[rows[own]]
    prepare(WholeInChunks(replace(data, labels=sparse.csr_matrix(truth)), size=40), tmp_path / "b", CONFIG)
    b = open_prepared(tmp_path / "b")
    assert a.stack is not None
    assert b.stack is not None
    raw = [
        np.asarray(folder.parts["train"].base_logits) * folder.stack.spread + folder.stack.centre
        for folder in (a, b)
        if folder.stack is not None
    ]
    rest = np.setdiff1d(np.arange(135), own)
    np.testing.assert_allclose(raw[0][own], raw[1][own], atol=1e-4)
    changed = np.abs(raw[0][rest] - raw[1][rest]).max(axis=(1, 2))
    assert (changed > 0.1).mean() > 0.9
    assert not (tmp_path / "a" / "features").exists()
    model = fit(a, CONFIG.updated({"training.epochs": 1}))
    assert model.proba(["red fox", "green sea"]).shape == (2, 4)


@pytest.mark.usefixtures("streamed")
def test_many_rows_for_a_model_without_a_network_keep_logits_of_validation_rows_only(tmp_path: Path) -> None:
    quick = Config.preset("quick").updated({"input.min_count": 1, "training.threads": 1})
    prepare(WholeInChunks(documents(), size=40), tmp_path / "rows", quick)
    prepared = open_prepared(tmp_path / "rows")
    assert prepared.parts["train"].base_logits is None
    assert prepared.parts["valid"].base_logits.shape == (15, 4, 2)
    proba = fit(prepared, quick).proba(["red fox", "green sea"])
    assert proba[0, 0] > proba[1, 0]
    assert proba[1, 1] > proba[0, 1]
    with pytest.raises(ConfigError, match="prepare them again with --preset fast, or train with --preset quick"):
        fit(prepared, CONFIG.updated({"model.base_learners": ["linear", "knn"]}))
    _changed(tmp_path / "rows", ["config", "model", "network"], True)  # then they must be there
    with pytest.raises(DataError, match=r"base_logits\.npy does not fit the base learners"):
        open_prepared(tmp_path / "rows")


def test_a_model_trains_from_mapped_rows_and_predicts_raw_ones(folder: Path) -> None:
    model = fit(open_prepared(folder), CONFIG)
    proba = model.proba(["red fox", "green sea"])
    assert model.metadata["rows"] == {"train": 135, "valid": 15}
    assert proba[0, 0] > 0.5 > proba[1, 0]
    assert proba[1, 1] > 0.5 > proba[0, 1]


def test_a_row_without_a_known_word_gets_the_label_priors(tmp_path: Path) -> None:
    data = documents()
    truth = data.indicator()
    truth[::3, 1] = np.nan
    prepare(WholeInChunks(replace(data, labels=sparse.csr_matrix(truth)), size=40), tmp_path / "rows", CONFIG)
    prepared = open_prepared(tmp_path / "rows")
    model = fit(prepared, CONFIG.updated({"training.epochs": 1}))
    learned = prepared.parts["train"].truth(np.arange(135)).numpy()
    assert np.isnan(learned).any()
    expected = label_priors(learned)
    assert model.label_priors is not None
    np.testing.assert_allclose(model.label_priors, expected, rtol=1e-6)
    np.testing.assert_allclose(model.proba(["nothing known"])[0], expected, rtol=1e-5)
    # The decisions are chosen on validation rows that are predicted in the same way.
    empty = replace(prepared.parts["valid"], nodes=model.encoder.encode(["nothing known"] * 15).nodes)
    prepared.parts["valid"] = empty
    again = fit(prepared, CONFIG.updated({"training.epochs": 1}))
    assert again.valid_proba is not None
    np.testing.assert_allclose(again.valid_proba, np.tile(expected, (15, 1)), rtol=1e-5)


def test_labels_are_counted_in_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = open_prepared(folder).parts["train"].targets
    whole = targets.label_priors()
    monkeypatch.setattr("lampnet.pipeline.mapped_rows._BLOCK", 7)
    assert np.array_equal(targets.label_priors(), whole)


def days(rows: int = 400) -> Dataset:
    """Documents in order: five of a day are about the same thing."""
    about = np.repeat(np.random.default_rng(1).integers(4, size=rows // 5), 5)
    others = np.random.default_rng(2).choice(WORDS[4:], size=(rows, 3))
    return Dataset(
        name="days",
        kind="text",
        rows=[" ".join((WORDS[number], *words)) for number, words in zip(about, others, strict=True)],
        labels=sparse.csr_matrix(np.eye(4, dtype=np.float32)[about]),
        label_names=tuple(WORDS[:4]),
    )


@pytest.mark.parametrize("ending", ["memory", "arrow"])
def test_serially_correlated_rows_are_validated_on_the_last(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, said = days(), []
    if ending == "memory":
        prepare(WholeInChunks(data, size=90), tmp_path / "rows", CONFIG, log=said.append)
    else:
        monkeypatch.setattr("lampnet.readers.table_chunks.CHUNK_ROWS", 90)
        prepare_source(Source(data=str(as_arrow(data, tmp_path))), tmp_path / "rows", CONFIG, said.append)
    assert "rows that follow each other are alike: folds are blocks of consecutive rows" in said
    parts = open_prepared(tmp_path / "rows").parts
    order = [data.label_names.index(name) for name in open_prepared(tmp_path / "rows").label_names]
    truth = data.indicator()[:, order]
    assert np.array_equal(parts["valid"].truth(np.arange(40)).numpy(), truth[-40:])
    assert np.array_equal(parts["train"].truth(np.arange(360)).numpy(), truth[:-40])
    encoder = make_encoder("text", CONFIG.input).fit(data.rows[:-40])
    features = encoder.encode(data.rows[:-40]).features
    folds = fold_numbers(360, FOLDS, 0, serially_correlated=True)
    assert np.allclose(parts["train"].base_logits, Stack(("linear",)).fit(features, truth[:-40], 0, folds), atol=1e-4)


@pytest.mark.usefixtures("streamed")
def test_folds_of_many_serially_correlated_rows_are_blocks(tmp_path: Path) -> None:
    data = days()
    truth = data.indicator()
    truth[:180] = np.roll(truth[:180], 1, axis=1)  # the first of two blocks
    prepare(WholeInChunks(data), tmp_path / "a", CONFIG)
    prepare(WholeInChunks(replace(data, labels=sparse.csr_matrix(truth))), tmp_path / "b", CONFIG)
    stacks, raw = [], []
    for name in "ab":
        prepared = open_prepared(tmp_path / name)
        assert prepared.stack is not None
        stacks.append(prepared.stack)
        raw.append(np.asarray(prepared.parts["train"].base_logits) * prepared.stack.spread + prepared.stack.centre)
    np.testing.assert_allclose(raw[0][:180], raw[1][:180], atol=1e-4)
    assert np.abs(raw[0][180:] - raw[1][180:]).max() > 0.1


def test_validation_rows_that_came_stay(tmp_path: Path) -> None:
    data = days()
    given = WholeInChunks(data.take(np.arange(7)))
    prepare(WholeInChunks(data), tmp_path / "rows", CONFIG, given)
    assert {name: len(part) for name, part in open_prepared(tmp_path / "rows").parts.items()} == {
        "train": 400,
        "valid": 7,
    }


def as_arrow(data: Dataset, folder: Path) -> Path:
    arrow = pytest.importorskip("pyarrow")
    tags = ["|".join(name for name, has in zip(data.label_names, row, strict=True) if has) for row in data.indicator()]
    table = arrow.table({"text": data.rows, "tags": tags})
    with arrow.OSFile(str(folder / "rows.arrow"), "wb") as sink, arrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return folder / "rows.arrow"


def test_bad_rows_of_a_table_are_left_out_when_it_is_prepared(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    smiles = ["CCO", "CCN", "C(C", "CC(=O)O", "c1ccccc1", "CCCC", "CCCN", "OCCO"] * 5
    parquet.write_table(
        arrow.table({"smiles": smiles, "y_a": [row % 2 for row in range(40)], "y_b": [1] * 20 + [0] * 20}),
        tmp_path / "rows.parquet",
    )
    said: list[str] = []
    plain = CONFIG.updated({"model.base_learners": "none"})
    source = Source(data=str(tmp_path / "rows.parquet"), on_bad_row="skip")
    prepare_source(source, tmp_path / "rows", plain, said.append)
    assert "rows.parquet: 5 of 40 molecules have invalid SMILES and are left out" in said
    parts = open_prepared(tmp_path / "rows").parts
    assert len(parts["train"]) + len(parts["valid"]) == 35
    with pytest.raises(DataError, match="is not valid SMILES"):
        prepare_source(replace(source, on_bad_row="error"), tmp_path / "other", plain, said.append)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_table_is_prepared_in_pieces(ending: str, folder: Path, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    data = documents()
    tags = ["|".join(name for name, has in zip(data.label_names, row, strict=True) if has) for row in data.indicator()]
    table = arrow.table({"text": data.rows, "tags": tags})
    file = tmp_path / f"documents.{ending}"
    if ending == "parquet":
        parquet.write_table(table, file, row_group_size=40)
    else:
        with arrow.OSFile(str(file), "wb") as sink, arrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=40)
    said: list[str] = []
    prepare_source(Source(data=str(file)), tmp_path / "rows", CONFIG, said.append)
    assert "150 rows; text from the column 'text'; labels from the column 'tags'" in said[0]
    ours, theirs = open_prepared(tmp_path / "rows"), open_prepared(folder)
    assert ours.label_names == tuple(sorted(theirs.label_names))
    assert np.array_equal(ours.parts["train"].nodes.ids, theirs.parts["train"].nodes.ids)


def test_the_second_strand_is_a_row_of_its_own_in_training(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    bases = draw.integers(0, 4, size=(60, 40), dtype=np.uint8)
    labels = sparse.csr_matrix((draw.random((60, 3)) < 0.4).astype(np.float32))
    data = Dataset(name="windows", kind="dna", rows=bases, labels=labels, label_names=("a", "b", "c"))
    prepare(WholeInChunks(data, size=25), tmp_path / "rows", CONFIG)
    parts = open_prepared(tmp_path / "rows").parts
    assert {name: len(part) for name, part in parts.items()} == {"train": 108, "valid": 6, "valid_other": 6}


@pytest.mark.usefixtures("streamed")
def test_streamed_strands_have_the_same_logits(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    bases = draw.integers(0, 4, size=(100, 40), dtype=np.uint8)
    labels = sparse.csr_matrix((draw.random((100, 3)) < 0.4).astype(np.float32))
    data = Dataset(name="windows", kind="dna", rows=bases, labels=labels, label_names=("a", "b", "c"))
    prepare(WholeInChunks(data, size=25), tmp_path / "rows", CONFIG)
    parts = open_prepared(tmp_path / "rows").parts
    assert {name: len(part) for name, part in parts.items()} == {"train": 180, "valid": 10, "valid_other": 10}
    assert np.array_equal(parts["valid"].base_logits, parts["valid_other"].base_logits)
    # In the training part, the rows of each chunk are followed by the same rows seen from the other side.
    held = np.sort(np.random.default_rng(0).permutation(100)[:10])
    first = 0
    for chunk in range(4):
        size = 25 - int(((held >= 25 * chunk) & (held < 25 * (chunk + 1))).sum())
        own, other = (slice(first + k * size, first + (k + 1) * size) for k in (0, 1))
        assert np.array_equal(parts["train"].base_logits[own], parts["train"].base_logits[other])
        assert np.array_equal(parts["train"].truth(np.arange(180))[own], parts["train"].truth(np.arange(180))[other])
        first += 2 * size


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "train" / "ids.npy").write_bytes((folder / "train" / "ids.npy").read_bytes()[:-4]),
        lambda folder: (folder / "train" / "offsets.npy").unlink(),
        lambda folder: (folder / "prepared.json").write_text("{"),
        lambda folder: (folder / "prepared.json").write_text("[]"),
        lambda folder: (folder / "encoder.safetensors").write_bytes(b"\0" * 100),
        lambda folder: _changed(folder, ["parts", "train", "arrays", "ids", "shape"], [10**15]),
        lambda folder: _changed(folder, ["parts", "train", "arrays", "ids", "dtype"], "|O"),
        lambda folder: _changed(folder, ["parts", "train", "rows"], 7),
        lambda folder: _changed(folder, ["parts", "train", "arrays"], {"../../x": {"dtype": "<i4", "shape": [1]}}),
        lambda folder: _changed(folder, ["version"], 99),
        lambda folder: _changed(folder, ["label_names"], ["a"]),
    ],
)
def test_damage_is_told(damage: object, folder: Path, tmp_path: Path) -> None:
    broken = copy_of(folder, tmp_path)
    damage(broken)  # type: ignore[operator]
    with pytest.raises(DataError, match=r"prepare"):
        open_prepared(broken)


def _changed(folder: Path, keys: list[str], value: object) -> None:
    path = folder / "prepared.json"
    manifest = json.loads(path.read_text())
    inner = manifest
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(manifest))


def test_an_interrupted_preparation_is_no_prepared_folder(tmp_path: Path) -> None:
    class Torn(WholeInChunks):
        passes = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            self.passes += 1
            for number, chunk in enumerate(super().__iter__()):
                if self.passes == 2 and number == 2:
                    raise OSError(28, "No space left on device")
                yield chunk

    with pytest.raises(DataError, match="No space left on device"):
        prepare(Torn(documents(), size=40), tmp_path / "rows", CONFIG)
    assert not is_prepared(tmp_path / "rows")
    prepare(WholeInChunks(documents(), size=40), tmp_path / "rows", CONFIG)
    assert is_prepared(tmp_path / "rows")


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty and holds no prepared data"):
        prepare(WholeInChunks(documents()), tmp_path, CONFIG)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_the_commands_prepare_train_and_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lampnet.cli.app import run

    data, rows, model = tmp_path / "documents.jsonl", tmp_path / "rows", tmp_path / "model"
    lines = [
        {"text": text, "labels": [name for name in WORDS[:4] if name in text.split()]} for text in documents().rows
    ]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    small = ["--set=model.width=16", "--set=model.heads=2", "--epochs=1", "--quiet"]
    assert run(["prepare", str(data), "--out", str(rows), "--set=input.min_count=1"]) == 0
    assert "135 training and 15 validation rows" in capsys.readouterr().out
    assert run(["train", str(rows), "--out", str(model), *small]) == 0
    assert run(["predict", str(model), str(data), "--out", str(tmp_path / "out")]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 150


def test_a_large_table_is_prepared_by_the_training_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from lampnet.cli.app import run

    data, rows = documents(), tmp_path / "documents.parquet"
    tags = ["|".join(name for name, has in zip(data.label_names, row, strict=True) if has) for row in data.indicator()]
    parquet.write_table(arrow.table({"text": data.rows, "tags": tags}), rows)
    monkeypatch.setattr("lampnet.pipeline.prepare.LARGE_BYTES", 1000)
    small = ["--set=model.width=16", "--set=model.heads=2", "--epochs=1", "--quiet"]
    prepared: list[bool] = []

    def fitted(rows: object, *args: object, **more: Any) -> FittedModel:
        prepared.append(isinstance(rows, MappedRows) and is_prepared(more["run"].folder / "prepared"))
        return fit(rows, *args, **more)

    monkeypatch.setattr("lampnet.pipeline.run.fit", fitted)
    assert run(["train", str(rows), "--out", str(tmp_path / "model"), *small]) == 0
    assert prepared == [True]
    assert [path.name for path in (tmp_path / "model" / "checkpoints").iterdir()] == ["run.json"]
    (tmp_path / "broken.parquet").write_bytes(rows.read_bytes()[:-100])
    assert run(["train", str(tmp_path / "broken.parquet"), "--out", str(tmp_path / "other"), *small]) == 2
    assert not (tmp_path / "other").exists()
