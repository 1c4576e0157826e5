"""How labelled rows are shared: which examples each member of the ensemble learns from and is validated on.

Rows are encoded and the base learners fitted here, once; every fold then has the stacking weights that were fitted
without its own rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from lampnet.base_learners.earned_place import ON_TRIAL, on_trial
from lampnet.base_learners.knn import TRAINING, VALIDATION, numbered
from lampnet.base_learners.label_names import words_of
from lampnet.base_learners.protocol import FOLDS, BaseLearner, FitContext
from lampnet.base_learners.stack import FittedLearner, Stack, vstack_features
from lampnet.base_learners.stacking_weights import StackingWeights, cross_fit_weights
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.label_priors import label_priors
from lampnet.data.schema import align_labels
from lampnet.data.splits import Splits, parts_of
from lampnet.data.weights import LabelWeight, Weights, rows_of
from lampnet.encoders import make_encoder
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.encoders.pooled import PooledEncoder
from lampnet.errors import ConfigError, DataError
from lampnet.inference.examples import Examples, examples_of_views
from lampnet.inference.predictor import FittedModel
from lampnet.model.stacked import StackedLaMP
from lampnet.pipeline.base_learner_files import EMBEDDINGS, BaseLearnerFiles, identity_of
from lampnet.pipeline.control import Control
from lampnet.pipeline.mapped_rows import MappedRows
from lampnet.training.progress import Stopped

#: mapped bytes from which on pages are handed back to the system
RELEASE_BYTES = 1 << 30
#: of a time budget, what the base learners may take: with a network to follow, and alone
LEARNERS_SHARE, LEARNERS_ALONE_SHARE = 0.5, 0.8
#: what fitting the base learners again takes, of the time that they took with their out-of-fold logits
REFIT_SHARE = 0.4
#: what is being done, and timed
ENCODING, STACKING = "encoding", "stacking weights"


@dataclass(frozen=True)
class Fold:
    """What one member of the ensemble learns from, and the held-out rows it is validated on, in each of their views."""

    train: Examples
    valid: list[Examples]


@dataclass(frozen=True)
class Before:
    """What had been learned already, where new rows are learned from.

    networks  its networks, with nodes for the labels that are new
    graph     its label graph, with edges of the labels that are new
    """

    model: FittedModel
    networks: list[StackedLaMP]
    graph: sparse.csr_matrix | None

    def knows_all(self, label_names: Sequence[str]) -> bool:
        """Whether no label is new."""
        return self.model.label_names == tuple(label_names)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Encoded rows with their base logits, and how the members of the ensemble share them.

    labels    CSR (n, L) of the training rows, for the label graph
    priors    (L,) how often each label is true
    rows      how many rows there are, by part, for the model card
    refit     fits the base learners again on more rows once every choice is made; None where they know all rows
    refit_seconds  about how long that takes
    before    what was learned from other rows before; None where everything is learned from these
    every_row  all labelled rows as the stack scores them out-of-fold, where lampnet itself held out the validation
              rows for a network; None where only the held-out rows of the folds are to be chosen on
    every_row_seconds  about how long that takes
    release   hands mapped pages back to the system; None for rows in memory
    """

    name: str
    label_names: tuple[str, ...]
    encoder: Encoder
    stack: Stack | None
    folds: list[Fold]
    labels: sparse.csr_matrix
    priors: np.ndarray
    rows: dict[str, int]
    refit: Callable[[], None] | None = None
    refit_seconds: float = 0.0
    before: Before | None = None
    every_row: Callable[[], list[Examples]] | None = None
    every_row_seconds: float = 0.0
    release: Callable[[], None] | None = None


def cross_fitted(splits: Splits, config: Config, control: Control, label_weight: LabelWeight = None) -> Plan:
    """All labelled rows in folds: each member learns from all folds but one and is validated on that one."""
    train = splits.train
    if splits.valid is not None:
        raise ConfigError(
            f"training.folds={config.training.folds} was given together with {len(splits.valid)} validation rows; "
            "set training.folds=1 to choose on these, or give all labelled rows as training rows"
        )
    truth = train.indicator()
    counts = Weights.of(train.weights, label_weight, train.label_names, truth)
    encoder, encoded, names_LH = _encode(train, config, control)
    blocked = _blocked(splits, control)
    stack, base_logits = _fit_base_learners(
        config, encoded, truth, _base_folds(splits, train, blocked, config), control, counts, names_LH
    )
    if stack is not None:
        stack.number_rows(row_origins(train))
    fold_n = ensemble_folds(splits, config)
    weights: list[StackingWeights | None] = [None] * (int(fold_n.max()) + 1)
    if stack is not None and base_logits is not None:
        with control.timed(STACKING):
            weights = list(stack.fit_weights(base_logits, truth, fold_n, counts, control.part(STACKING)).folds)
    folds = []
    for (rest, own), own_weights in zip(parts_of(fold_n), weights, strict=True):
        views = examples_of_views(encoded, truth, base_logits, own_weights, counts)
        folds.append(Fold(Examples.joined([view.take(rest) for view in views]), [view.take(own) for view in views]))
    return _plan(train, truth, encoder, stack, folds, {"train": len(train), "valid": 0}, counts)


def ensemble_folds(splits: Splits, config: Config) -> np.ndarray:
    """The fold of each training row of a cross-fitted ensemble, int (n,)."""
    training = config.training
    train = splits.train
    return splits.folds_of(train, training.folds, training.seed, splits.serially_correlated)


def single_split(
    splits: Splits, config: Config, validation_fraction: float, control: Control, label_weight: LabelWeight = None
) -> Plan:
    """One network that learns from the training rows and is validated on the validation rows."""
    blocked = _blocked(splits, control)
    sampled = splits.valid is None or splits.valid_is_sampled
    splits = splits.with_validation(validation_fraction, config.training.seed)
    train, valid = splits.train, splits.valid
    assert valid is not None
    check_training_rows(train)
    if valid.label_names != train.label_names:
        valid = align_labels(valid, train.label_names)
    truth, valid_truth = train.indicator(), valid.indicator()
    counts = Weights.of(train.weights, label_weight, train.label_names, truth)
    valid_counts = None
    if counts is not None:  # labels count as they do in training
        rows = Weights.of(valid.weights or np.ones(len(valid)), None, train.label_names, valid_truth)
        assert rows is not None
        valid_counts = replace(counts, row_n=rows.row_n)
    encoder, encoded, names_LH = _encode(train, config, control)
    held_out = encoder.encode(valid.rows, valid.row_edges)
    began = control.budget.spent()
    stack, base_logits = _fit_base_learners(
        config, encoded, truth, _base_folds(splits, train, blocked, config), control, counts, names_LH
    )
    seconds = control.budget.spent() - began
    weights, held_out_logits = None, None
    fold_n = splits.folds_of(train, FOLDS, config.training.seed, blocked)
    if stack is not None and base_logits is not None:
        stack.number_rows(row_origins(train))
        with control.timed(STACKING):
            weights = stack.choose_and_fit_weights(base_logits, truth, fold_n, counts, control.part(STACKING))
        held_out_logits = stack.logits(held_out.features)
    fold = Fold(
        Examples.joined(examples_of_views(encoded, truth, base_logits, weights, counts)),
        examples_of_views(held_out, valid_truth, held_out_logits, weights, valid_counts),
    )

    both = None if train.weights is None else (*train.weights, *(valid.weights or np.ones(len(valid))))

    def refit() -> None:
        assert stack is not None
        # A label that no training row has is new to the network: its base logits stay as the network knew them.
        known = np.where(np.any(truth > 0, axis=0), valid_truth, np.nan)
        features, labels = vstack_features([encoded.features, held_out.features]), np.vstack([truth, known])
        again = Weights.of(both, label_weight, train.label_names, labels)
        stack.refit(features, labels, config.training.seed, control.report, again)
        stack.number_rows(row_origins(train, valid))

    def every_row() -> list[Examples]:
        assert base_logits is not None
        with control.timed(STACKING):
            by_fold = cross_fit_weights(base_logits, truth, fold_n, counts, control.part(STACKING)).folds
        rows = examples_of_views(encoded, truth, base_logits, weights, counts)[0]
        at = [np.flatnonzero(fold_n == number) for number in range(len(by_fold))]
        parts = [replace(rows.take(own), weights=fitted) for own, fitted in zip(at, by_fold, strict=True)]
        parts.append(fold.valid[0])
        if counts is not None:  # training and validation rows were scaled apart; here they count beside each other
            row_n = np.ones(len(train) + len(valid)) if both is None else np.array(both) / np.mean(both)
            at.append(np.arange(len(train), len(row_n)))
            parts = [
                replace(part, row_weights=replace(counts, row_n=row_n[own]))
                for part, own in zip(parts, at, strict=True)
            ]
        return parts

    again = refit if stack is not None and config.training.refit_base_learners else None
    plan = _plan(train, truth, encoder, stack, [fold], {"train": len(train), "valid": len(valid)}, counts)
    return replace(
        plan,
        refit=again,
        refit_seconds=REFIT_SHARE * seconds if again is not None else 0.0,
        every_row=every_row if sampled and weights is not None else None,
        every_row_seconds=FOLDS * control.seconds.get(STACKING, 0.0),
    )


def row_origins(train: Dataset, valid: Dataset | None = None) -> np.ndarray:
    """Where training rows and, behind them, validation rows come from, int (n, 2) as explanations name neighbours.

    Validation rows that were taken out of the rows that came are numbered as these; those that came apart, as they are.
    """
    numbers, held_out = (
        np.arange(len(part)) if part.numbers is None else np.array(part.numbers, dtype=np.int64)
        for part in (train, train.take(np.arange(0)) if valid is None else valid)
    )
    taken = train.numbers is not None and not np.isin(held_out, numbers).any()
    return np.vstack([numbered(numbers), numbered(held_out, TRAINING if taken else VALIDATION)])


def mapped(rows: MappedRows) -> Plan:
    """One network that learns from mapped training rows and is validated on the prepared validation rows."""
    names, weights = rows.label_names, None if rows.stack is None else rows.stack.weights
    parts = {name: replace(part, weights=weights) for name, part in rows.parts.items()}
    train = parts["train"]
    stored = train.targets
    return Plan(
        name=rows.name,
        label_names=names,
        encoder=rows.encoder,
        stack=rows.stack,
        folds=[Fold(train, [part for name, part in parts.items() if name != "train"])],
        labels=sparse.csr_matrix((stored.values, stored.ids, stored.offsets), shape=(len(train), len(names))),
        priors=stored.label_priors(),
        rows={"train": len(train), "valid": len(parts["valid"])},
        release=rows.release if rows.mapped_bytes() > RELEASE_BYTES else None,
    )


def _plan(
    train: Dataset,
    truth: np.ndarray,
    encoder: Encoder,
    stack: Stack | None,
    folds: list[Fold],
    rows: dict[str, int],
    counts: Weights | None,
) -> Plan:
    assert train.labels is not None
    return Plan(
        name=train.name,
        label_names=train.label_names,
        encoder=encoder,
        stack=stack,
        folds=folds,
        labels=train.labels,
        priors=label_priors(truth, row_n=rows_of(counts)),
        rows=rows,
    )


def _blocked(splits: Splits, control: Control) -> bool:
    if splits.arranged == "groups":
        control.log("rows of one group stay together in all folds")
    elif splits.arranged == "times":
        control.log("rows are in the order of their times: what is held out is later than the rest")
    elif splits.serially_correlated:
        control.log("rows that follow each other are alike: folds are blocks of consecutive rows")
    return splits.serially_correlated


def _base_folds(splits: Splits, train: Dataset, blocked: bool, config: Config) -> np.ndarray | None:
    """Folds of the rows that the base learners keep apart; None where each may leave out what suits it."""
    if not blocked and splits.arranged != "groups":
        return None
    return splits.folds_of(train, FOLDS, config.training.seed, blocked)


def check_training_rows(train: Dataset) -> None:
    """Refuse what cannot be learned from, with a sentence that says why."""
    if train.labels is None:
        raise DataError(
            f"{train.name}: the training rows carry no labels; give rows with labels, or name the columns of a table "
            "that hold them with --label-columns NAME,NAME"
        )
    if len(train) < 2:
        raise DataError(f"{train.name}: {len(train)} training row(s) were given; at least two are needed")
    if not train.label_names:
        raise DataError(f"{train.name}: no label names were found; at least one label is needed")
    if not np.any(np.nan_to_num(train.labels.data) > 0):
        raise DataError(f"{train.name}: no training row has any label; there is nothing to learn from")


def warn_of_unknown_labels(train: Dataset) -> None:
    """Say where nothing can be learned: a label is unknown in every training row, or all rows have the same labels."""
    assert train.labels is not None
    known = train.labels.data[~np.isnan(train.labels.data)]
    often = np.bincount(train.labels.indices, minlength=len(train.label_names))
    if len(known) == len(train.labels.data) and np.isin(often, (0, len(train))).all():
        warnings.warn(
            "all training rows have the same labels, so every new row will get them", UserWarning, stacklevel=2
        )
    unknown = np.bincount(train.labels.indices[np.isnan(train.labels.data)], minlength=len(train.label_names))
    never = [name for name, rows in zip(train.label_names, unknown, strict=True) if rows == len(train)]
    if never:
        listed = ", ".join(map(repr, never[:5])) + (", ..." if len(never) > 5 else "")
        message = f"unknown in every training row, so nothing is learned of them: {listed}; leave such labels out"
        warnings.warn(message, UserWarning, stacklevel=2)


def _encode(train: Dataset, config: Config, control: Control) -> tuple[Encoder, EncodedRows, np.ndarray | None]:
    """The encoder, the training rows and, where a base learner asks for it, what the labels' names mean (L, H)."""
    control.log(f"encoding {len(train)} {train.kind} rows")
    with control.timed(ENCODING):
        return _encoded(train, config, control)


def _encoded(train: Dataset, config: Config, control: Control) -> tuple[Encoder, EncodedRows, np.ndarray | None]:
    report = control.part(ENCODING)
    encoder = make_encoder(train.kind, config.input).fit(train.rows, train.feature_names)
    report(0.3)
    if not isinstance(encoder, PooledEncoder):
        encoded = encoder.encode(train.rows, train.row_edges)
        report(0.5)
        assert len(encoded.nodes) == len(train)  # nodes and features are computed when first asked for
        report(0.8)
        if config.model.base_learners:
            assert encoded.features.shape[0] == len(train)
        return encoder, encoded, None
    encoder.while_training(None if control.folder is None else control.folder / EMBEDDINGS, control.phase)
    encoded = encoder.encode(train.rows, train.row_edges)
    assert encoded.features.shape[1] == encoder.n_features  # computed here, once
    names_LH = encoder.pooled(label_texts(train)) if "label_names" in config.model.base_learners else None
    encoder.after_training()
    return encoder, encoded, names_LH


def label_texts(train: Dataset) -> list[str]:
    """What each label means, in words: its description, else its name."""
    known = train.label_descriptions or {}
    return [known.get(name) or words_of(name) for name in train.label_names]


class _EndAsked(Exception):
    """A signal came while a base learner was being fitted."""


def _fit_base_learners(
    config: Config,
    encoded: EncodedRows,
    truth: np.ndarray,
    fold_n: np.ndarray | None,
    control: Control,
    counts: Weights | None,
    names_LH: np.ndarray | None,
) -> tuple[Stack | None, np.ndarray | None]:
    """The base learners, and their out-of-fold logits of the training rows (n, L, K).

    Where a signal asks for the end, the stack of those learners that are fitted already.
    """
    control.collect_signals()
    names, seed = config.model.base_learners, config.training.seed
    if not names:
        return None, None
    X, embedded = encoded.features, encoded.encoder.n_embedded
    asked = [names, seed, None if fold_n is None else fold_n.tolist()]
    if names_LH is not None:
        asked.append(names_LH.tolist())
    if counts is not None:
        asked += [part.tolist() for part in (counts.row_n, counts.entry_L, counts.label_L)]
    files = BaseLearnerFiles(control.folder, identity_of(X, truth, *asked))
    fitted = files.restored(names, X, truth, embedded) if control.resume else {}
    control.log(f"fitting base learners ({', '.join(name for name in names if name not in fitted) or 'none'})")
    if fitted:
        control.log(f"fitted by the earlier run: {', '.join(fitted)}")

    def keep(name: str, learner: BaseLearner, out_of_fold: np.ndarray) -> None:
        fitted[name] = FittedLearner(learner.arrays(), out_of_fold)
        files.save(name, learner, out_of_fold)

    def report(share: float, doing: str) -> None:
        control.phase(share, f"base learners: {doing}")
        if control.received:
            raise _EndAsked

    share = LEARNERS_SHARE if config.model.network else LEARNERS_ALONE_SHARE
    context = FitContext(progress=report, budget_seconds=control.budget.share(share), log=control.log)
    stack = Stack(names, embedded)
    if names_LH is not None:
        stack.name_labels(names_LH)
    try:
        with control.timed("base learners"):
            base_logits = stack.fit(X, truth, seed, fold_n, context, keep, dict(fitted), counts)
            return _those_that_earn_it(stack, base_logits, truth, seed, fold_n, counts, control)
    except _EndAsked:
        if not fitted:
            raise Stopped.before_training(control.received[0]) from None
    stack = Stack([name for name in names if name in fitted], embedded)
    return stack, stack.fit(X, truth, seed, fold_n, fitted=fitted)


def _those_that_earn_it(
    stack: Stack,
    base_logits: np.ndarray,
    truth: np.ndarray,
    seed: int,
    fold_n: np.ndarray | None,
    counts: Weights | None,
    control: Control,
) -> tuple[Stack, np.ndarray]:
    """The stack and its out-of-fold logits without learners on trial that do not make it better."""
    for name in ON_TRIAL:
        if name not in stack.names or len(stack.names) == 1:
            continue
        number = stack.names.index(name)
        trial = on_trial(base_logits, number, truth, seed, fold_n, counts)
        found = f"out-of-fold log-loss {trial.with_it:.4f} with it, {trial.without:.4f} without"
        control.log(f"{name}: {'kept' if trial.stays else 'left out'} ({found})")
        if not trial.stays:
            stack, base_logits = stack.without(name), np.delete(base_logits, number, axis=-1)
    return stack, base_logits
