"""Training from mapped rows that need not fit in memory; see `prepare` and `mapped_rows`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.config import Config
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.inference.logits import logits_of_views, probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_member
from lampnet.model.initialise import match_label_priors, spectral_start
from lampnet.model.label_graph import label_graph
from lampnet.pipeline.fit import run_metadata
from lampnet.pipeline.mapped_rows import MappedRows
from lampnet.runtime import distributed
from lampnet.runtime.folder_lock import claimed
from lampnet.runtime.torch_state import threads
from lampnet.training.trainer import Callback, Progress, Stopped, Trainer

#: rows that the spectral start looks at
START_ROWS = 50_000
#: steps between two moments at which mapped pages are handed back
RELEASE_STEPS = 500
#: below this many mapped bytes nothing is handed back
RELEASE_BYTES = 1 << 30


def prepared_config(prepared: MappedRows, config: Config, say: Callable[[str], None]) -> Config:
    """The settings asked for, but the input's and the opinions as the rows were prepared."""
    made = prepared.config
    changed = [f"input.{name}" for name, value in vars(made.input).items() if value != getattr(config.input, name)] + (
        ["model.base_learners"] if config.model.base_learners not in (("auto",), made.model.base_learners) else []
    )
    if changed:
        say(f"{', '.join(changed)}: as the data was prepared (prepare again to change it)")
    return replace(config, input=made.input, model=replace(config.model, base_learners=made.model.base_learners))


def fit_mapped(
    prepared: MappedRows,
    config: Config,
    *,
    label_edges: np.ndarray | None = None,
    folder: Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> FittedModel:
    """As `lampnet.pipeline.fit.fit`, from memory-mapped rows."""
    with distributed.joined() as team, claimed(folder if team.leads else None):
        say = say if team.leads else lambda sentence: None
        config = prepared_config(prepared, config, say)
        rows = len(prepared.parts["train"])
        if config.training.folds > 1:
            say("training.folds: one network, checked on the prepared validation rows")
        config = config.updated({"training.folds": 1}).resolved(prepared.encoder.kind, rows, len(prepared.label_names))
        with threads(config.training.threads):
            return _fit(prepared, config, label_edges, folder, resume, callback, say)


def _fit(
    prepared: MappedRows,
    config: Config,
    label_edges: np.ndarray | None,
    folder: Path | None,
    resume: bool,
    callback: Callback | None,
    say: Callable[[str], None],
) -> FittedModel:
    seed, names = config.training.seed, prepared.label_names
    train, valid = prepared.parts["train"], prepared.parts["valid"]
    stored = train.targets
    labels = sparse.csr_matrix((stored.values, stored.ids, stored.offsets), shape=(len(train), len(names)))
    graph = label_graph(config.label_graph, len(names), labels=labels, edges=label_edges)
    del labels
    network = build_member(config, len(names), prepared.encoder, graph)
    sample = train.take(np.sort(np.random.default_rng(seed).permutation(len(train))[:START_ROWS]))
    if config.training.start == "spectral":
        spectral_start(network, sample.nodes, sample.targets, seed)
    match_label_priors(network, sample.nodes, sample.targets, sample.base_logits, seed)
    del sample
    say(f"training {sum(p.numel() for p in network.parameters()):,} weights on {len(train):,} prepared rows")

    def hear(event: str, progress: Progress) -> None:
        if progress.step % RELEASE_STEPS == 0 and prepared.mapped_bytes() > RELEASE_BYTES:
            prepared.release()
        if callback is not None:
            callback(event, progress)

    trainer = Trainer(network, config.training, train, valid, folder, hear)

    def finished(progress: Progress) -> FittedModel:
        say("choosing the decisions on the validation rows")
        model = FittedModel(
            config=config,
            label_names=names,
            encoder=prepared.encoder,
            stack=prepared.stack,
            graph=graph if config.label_graph not in ("full", "edgeless") else None,
            network=network,
            decisions=None,  # type: ignore[arg-type]  # chosen on the next line, from this very model
            label_priors=stored.label_priors(),
        )
        truth, proba = validation(prepared, model)
        model.decisions = choose_decisions(truth, proba, seed=seed)
        rows = {"train": len(train), "valid": len(valid)}
        facts: dict[str, Any] = {"data": prepared.name, "rows": rows}
        model.metadata = facts | run_metadata(model, [progress], truth, proba)
        return model

    try:
        return finished(trainer.run(resume=resume))
    except Stopped as stopped:
        if trainer.use_best():
            stopped.model = finished(stopped.progress)
        raise


def validation(prepared: MappedRows, model: FittedModel) -> tuple[np.ndarray, np.ndarray]:
    """Truth and probabilities (n, L) of the prepared validation rows, the mean of both views where there are two."""
    views = [part for name, part in prepared.parts.items() if name != "train"]
    logits = logits_of_views(model.network, views, model.label_priors)
    valid = prepared.parts["valid"]
    return valid.truth(np.arange(len(valid))).numpy(), probabilities(logits)
