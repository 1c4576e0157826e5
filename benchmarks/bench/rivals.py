"""Whole methods compared on Bibtex, and the cost of batching on Reuters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.networks import training_step
from bench.timing import interleaved, medians
from lampnet.config import Config
from lampnet.errors import DataError

FIT_ROWS, TEST_ROWS = 320, 128
#: an untrained decoder does not know when to stop, so it is trained before its predictions are timed
DECODER_EPOCHS = 4


def rivals(log: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of fitting (one pass over the rows) and predicting on Bibtex; the reason where the data are missing."""
    from lampnet.baselines import baseline
    from lampnet.encoders import make_encoder
    from lampnet.inference.examples import Examples
    from lampnet.inference.logits import predict_logits
    from lampnet.model.build import build_member
    from lampnet.readers.named.registry import load

    try:
        splits = load("bibtex")
    except DataError as absent:
        return {"skipped": str(absent)}
    config = Config.preset("fast").updated({"model.base_learners": "none"})
    encoder = make_encoder("wordset", config.input).fit(splits.train.rows, splits.train.feature_names)
    X, Y = splits.train.rows[:FIT_ROWS], splits.train.indicator()[:FIT_ROWS]
    encoded, held_out = encoder.encode(X), encoder.encode(splits.train.rows[-TEST_ROWS:])
    nodes, test = encoded.nodes, held_out.nodes
    features, test_features = encoded.features, held_out.features
    network = build_member(config, Y.shape[1], encoder, None)
    chunks = np.array_split(np.argsort(nodes.lengths()), FIT_ROWS // 32)
    state: dict[str, Any] = {}
    learn = Examples(nodes=nodes, targets=Y)

    step = training_step(network, lambda: network(state["batch"]).stages, lambda: state["truth"])

    def lampnet_epoch() -> None:
        for rows in chunks:
            state["batch"], state["truth"] = learn.nodes.batch(rows), learn.truth(rows)
            step()

    settings = {"width": config.model.width, "epochs": 1, "beams": 5}
    seq2seq = baseline("seq2seq", **{**settings, "epochs": DECODER_EPOCHS}).fit(nodes, Y, test, Y[:TEST_ROWS])
    logistic, chain = baseline("logistic", C=3.0).fit(features, Y), baseline("chain", C=3.0).fit(features, Y)
    log("rivals on Bibtex: Seq2Seq (beam 5), one-vs-rest logistic regression, classifier chain")
    fit = medians(
        interleaved(
            {
                "lampnet": lampnet_epoch,
                "seq2seq": lambda: baseline("seq2seq", **settings).fit(nodes, Y, test, Y[:TEST_ROWS]),
                "logistic": lambda: baseline("logistic", C=3.0).fit(features, Y),
                "chain": lambda: baseline("chain", C=3.0).fit(features, Y),
            },
            seconds=1,
        )
    )
    predict = medians(
        interleaved(
            {
                "lampnet": lambda: predict_logits(network, Examples(nodes=test)),
                "seq2seq": lambda: seq2seq.predict(test),
                "logistic": lambda: logistic.predict_proba(test_features),
                "chain": lambda: chain.predict_proba(test_features),
            },
            seconds=1,
        )
    )
    return {
        "fit_rows": FIT_ROWS,
        "test_rows": TEST_ROWS,
        "fit_seconds": fit,
        "predict_seconds": predict,
        "note": "one pass over the rows for lampnet and Seq2Seq, the whole fit (C given) for the linear ones",
    }


def batching() -> dict[str, Any]:
    """Padding of length buckets on Reuters, and the share of a training step that making batches takes."""
    from lampnet.encoders import make_encoder
    from lampnet.inference.examples import Examples
    from lampnet.model.build import build_member
    from lampnet.readers.named.registry import load
    from lampnet.runtime.random_bytes import RandomBytes
    from lampnet.training.batches import shuffled_batches

    try:
        splits = load("reuters21578")
    except DataError as absent:
        return {"skipped": str(absent)}
    config = Config.preset("fast").updated({"model.base_learners": "none"})
    rows = splits.train.rows[:2048]
    encoder = make_encoder(splits.train.kind, config.input).fit(rows, splits.train.feature_names)
    examples = Examples(nodes=encoder.encode(rows).nodes, targets=splits.train.indicator()[: len(rows)])
    batches = shuffled_batches(examples.nodes.lengths(), config.training.batch_size, seed=0, epoch=0)
    network = build_member(config, len(splits.train.label_names), encoder, None)
    state: dict[str, Any] = {"at": 0}
    random = RandomBytes(0)

    def make() -> None:
        rows = batches[state["at"] % len(batches)]
        state["at"] += 1
        state["batch"] = examples.nodes.batch(rows).with_node_dropout(config.model.node_dropout, random)
        state["truth"] = examples.truth(rows)

    make()
    step = training_step(network, lambda: network(state["batch"]).stages, lambda: state["truth"])
    taken = medians(interleaved({"make": make, "step": step}, seconds=8))
    return {
        "padding_share": padding_share(examples.nodes.lengths(), batches),
        "loading_share": taken["make"] / (taken["make"] + taken["step"]),
        "rows": len(rows),
    }


def padding_share(lengths: np.ndarray, batches: list[np.ndarray]) -> float:
    """The share of node slots that are padding."""
    held = sum(int(lengths[rows].sum()) for rows in batches)
    places = sum(len(rows) * max(1, int(lengths[rows].max())) for rows in batches)
    return 1 - held / max(1, places)
