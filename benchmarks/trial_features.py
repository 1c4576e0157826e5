"""Features and a base learner that `benchmarks/trials.py` tries beside those of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import mock

import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from scipy import sparse
from scipy.special import logit
from torch.nn import functional

from lampnet.base_learners.protocol import Features
from lampnet.config import Config
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import parts_of
from lampnet.encoders import make_encoder, pooled
from lampnet.encoders.molecule_features import atom_features
from lampnet.encoders.pooled import PooledEncoder
from lampnet.encoders.unit_rows import unit_rows

FINGERPRINT_BITS = 2048
RIDGES = (0.3, 1.0, 3.0, 10.0)
HIDDEN, EPOCHS, BATCH, LEARNING_RATE = 512, 15, 64, 2e-3


def spaced_kmers(bases_nB: np.ndarray, offsets: Sequence[int]) -> sparse.csr_matrix:
    """Unit rows (n, F) of log counts of the bases at these offsets, a pattern and its reverse complement as one.

    The offsets must read the same from both ends, so that the other strand has the same pattern.

    >>> spaced_kmers(np.array([[0, 1, 2, 3]]), [0, 3]).shape
    (1, 1)
    """
    span = offsets[-1] + 1
    if [span - 1 - offset for offset in reversed(offsets)] != list(offsets):
        raise ValueError(f"the offsets {list(offsets)} differ from both ends")
    starts = bases_nB.shape[1] - span + 1
    read = [bases_nB[:, offset : offset + starts].astype(np.int64) for offset in offsets]
    known = np.logical_and.reduce([bases < 4 for bases in read])
    forward, backward = np.zeros_like(read[0]), np.zeros_like(read[0])
    for first, last in zip(read, reversed(read), strict=True):
        forward, backward = 4 * forward + first, 4 * backward + (3 - last)
    rows, _ = np.nonzero(known)
    entries = (np.ones(len(rows), dtype=np.float32), (rows, np.minimum(forward, backward)[known]))
    counts = sparse.coo_matrix(entries, shape=(len(bases_nB), 4 ** len(offsets))).tocsr()
    counts = counts[:, np.unique(counts.indices)]
    counts.data = np.log1p(counts.data)
    return unit_rows(counts)


def more_fingerprints(smiles: Sequence[str]) -> np.ndarray:
    """Unit rows (n, 4 x 2,048) of log counts: atom pairs, torsions, paths, and circles of pharmacophoric features."""
    kinds = rdFingerprintGenerator
    circles = kinds.GetMorganFeatureAtomInvGen()
    makers = [
        kinds.GetAtomPairGenerator(fpSize=FINGERPRINT_BITS),
        kinds.GetTopologicalTorsionGenerator(fpSize=FINGERPRINT_BITS),
        kinds.GetRDKitFPGenerator(fpSize=FINGERPRINT_BITS, maxPath=5),
        kinds.GetMorganGenerator(radius=2, fpSize=FINGERPRINT_BITS, atomInvariantsGenerator=circles),
    ]
    molecules = [Chem.MolFromSmiles(one) for one in smiles]
    counted = (np.stack([make.GetCountFingerprintAsNumPy(molecule) for molecule in molecules]) for make in makers)
    logs = [np.log1p(counts.astype(np.float32)) for counts in counted]
    lengths = [np.maximum(np.linalg.norm(log, axis=1, keepdims=True), 1e-9) for log in logs]
    return np.hstack([log / length for log, length in zip(logs, lengths, strict=True)])


def path_fingerprints(smiles: Sequence[str]) -> np.ndarray:
    """Unit rows (n, 2,048) of log counts of paths of up to five bonds."""
    make = rdFingerprintGenerator.GetRDKitFPGenerator(fpSize=FINGERPRINT_BITS, maxPath=5)
    counts = np.stack([make.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(one)) for one in smiles])
    logs = np.log1p(counts.astype(np.float32))
    return logs / np.maximum(np.linalg.norm(logs, axis=1, keepdims=True), 1e-9)


def walked_atoms(smiles: Sequence[str], steps: int = 3) -> np.ndarray:
    """Unit rows (n, F): descriptors of atoms, carried along directed bonds for 0 to `steps` bonds and summed.

    As in messages along directed bonds, no walk turns back on the bond that it came by. Nothing is trained.
    """
    sums = []
    for one in smiles:
        molecule = Chem.MolFromSmiles(one)
        atoms = atom_features(molecule).astype(np.float64)
        bonds = Chem.GetAdjacencyMatrix(molecule).astype(np.float64)
        degree = np.diag(bonds.sum(axis=0))
        before, walks = np.eye(len(bonds)), bonds
        own = [atoms.sum(axis=0)]
        for step in range(1, steps + 1):
            own.append((walks @ atoms).sum(axis=0))
            back = degree if step == 1 else degree - np.eye(len(bonds))
            before, walks = walks, walks @ bonds - before @ back
        sums.append(np.log1p(np.concatenate(own)))
    logs = np.stack(sums).astype(np.float32)
    return logs / np.maximum(np.linalg.norm(logs, axis=1, keepdims=True), 1e-9)


def pooled_states(texts: Sequence[str], tokens: int) -> np.ndarray:
    """What a pretrained encoder says of texts, float32 (n, H), from so many of their first tokens."""
    read = Config.preset("fast").updated({"input.pretrained": "auto", "input.pretrained_use": "pooled"}).input
    encoder = make_encoder("text", read).fit(list(texts))
    assert isinstance(encoder, PooledEncoder)
    known = _POOLED.setdefault(pooled.POOLED_TOKENS, {})
    known |= _by_text(encoder, [text for text in texts if text not in known])
    if tokens == pooled.POOLED_TOKENS:
        return np.stack([known[text] for text in texts])
    lengths = [len(one.ids) for one in encoder._open()(list(texts)).encodings]
    long = [text for text, length in zip(texts, lengths, strict=True) if length > pooled.POOLED_TOKENS]
    print(f"{len(long):,} of {len(texts):,} texts have more than {pooled.POOLED_TOKENS} tokens", flush=True)
    with mock.patch.object(pooled, "POOLED_TOKENS", tokens):
        longer = known | _by_text(encoder, long)
    return np.stack([longer[text] for text in texts])


_POOLED: dict[int, dict[str, np.ndarray]] = {}


def _by_text(encoder: PooledEncoder, texts: list[str]) -> dict[str, np.ndarray]:
    return dict(zip(texts, encoder.pooled(texts), strict=True))


def ridge(X: Features, Y_nL: np.ndarray, fold_n: np.ndarray, rank: int | None = None) -> np.ndarray:
    """Out-of-fold scores (n, L) of ridge regression with an intercept; of what rank is predicted, None for any.

    The penalty is the one of `RIDGES` with the least error on the held-out rows of all folds together.
    """
    prior_L = label_priors(Y_nL, np.float64)
    T_nL = np.nan_to_num((Y_nL - prior_L) / np.sqrt(prior_L * (1 - prior_L)))
    scores = {penalty: np.zeros(T_nL.shape) for penalty in RIDGES}
    dense = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    X_nF = np.hstack([dense, np.ones((len(dense), 1))])
    for rest, own in parts_of(fold_n):
        values, vectors = np.linalg.eigh(X_nF[rest].T @ X_nF[rest])
        rotated = vectors.T @ (X_nF[rest].T @ T_nL[rest])
        for penalty in RIDGES:
            W_FL = vectors @ (rotated / (values + penalty)[:, None])
            if rank is not None:
                fitted = X_nF[rest] @ W_FL
                directions = np.linalg.eigh(fitted.T @ fitted)[1][:, -rank:]
                W_FL = W_FL @ directions @ directions.T
            scores[penalty][own] = X_nF[own] @ W_FL
    best = min(RIDGES, key=lambda penalty: float(((T_nL - scores[penalty]) ** 2).sum()))
    return np.arcsinh(2 * scores[best]).astype(np.float32)


def hidden_layer(X: Features, Y_nL: np.ndarray, fold_n: np.ndarray) -> np.ndarray:
    """Out-of-fold logits (n, L) of a network with one hidden layer, which all labels share."""
    logits_nL = np.zeros(Y_nL.shape, dtype=np.float32)
    for rest, own in parts_of(fold_n):
        logits_nL[own] = _trained(X[rest], Y_nL[rest])(X[own])
    return logits_nL


class _trained:
    """One network, trained on all rows it is given."""

    def __init__(self, X: Features, Y_nL: np.ndarray) -> None:
        torch.manual_seed(0)
        random = np.random.default_rng(0)
        n, width = X.shape
        hidden, readout = torch.nn.Linear(width, HIDDEN), torch.nn.Linear(HIDDEN, Y_nL.shape[1])
        norm = float(np.sqrt(_dense(X[:256]).square().sum(dim=1).mean()))
        with torch.no_grad():
            hidden.weight.normal_(0, 1.4 / norm)
            readout.weight.mul_(0.1)
            readout.bias.copy_(torch.as_tensor(logit(label_priors(Y_nL)), dtype=torch.float32))
        drop, half = torch.nn.Dropout(0.2), torch.nn.Dropout(0.5)
        self.network = torch.nn.Sequential(drop, hidden, torch.nn.ReLU(), half, readout)
        optimizer = torch.optim.AdamW(self.network.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
        steps = EPOCHS * max(1, n // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1, pct_start=0.1)
        truth, known = torch.as_tensor(np.nan_to_num(Y_nL)), torch.as_tensor(~np.isnan(Y_nL))
        for _ in range(EPOCHS):
            for rows in np.array_split(random.permutation(n), max(1, n // BATCH)):
                loss = functional.binary_cross_entropy_with_logits(
                    self.network(_dense(X[rows])), truth[rows], weight=known[rows].float(), reduction="sum"
                )
                optimizer.zero_grad()
                (loss / len(rows)).backward()
                optimizer.step()
                schedule.step()
        self.network.eval()

    @torch.no_grad()
    def __call__(self, X: Features) -> np.ndarray:
        batches = [self.network(_dense(X[at : at + 1024])) for at in range(0, X.shape[0], 1024)]
        return torch.cat(batches).numpy()


def _dense(X: Features) -> torch.Tensor:
    return torch.as_tensor(np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float32))


#: at most this many rounds of boosting, and how many without a lower loss on held-out rows end it
BOOSTING_ROUNDS, BOOSTING_PATIENCE = 300, 40
#: logits (n, L) of new rows
Predict = Callable[[np.ndarray], np.ndarray]
#: fits on X and Y; with held-out rows until their loss no longer falls, else so many rounds; returns the rounds too
FitBoosted = Callable[[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None, int | None], tuple[Predict, int]]


def boosters(seed: int) -> dict[str, FitBoosted]:
    """Boosted trees of other libraries, one thread each; as they come but for the learning rate .1 and the rounds."""

    def lightgbm(
        X: np.ndarray, Y: np.ndarray, valid: tuple[np.ndarray, np.ndarray] | None, rounds: int | None
    ) -> tuple[Predict, int]:
        from lightgbm import LGBMClassifier, early_stopping

        models = []
        for label in range(Y.shape[1]):
            model = LGBMClassifier(
                n_estimators=rounds or BOOSTING_ROUNDS, learning_rate=0.1, n_jobs=1, random_state=seed, verbose=-1
            )
            held_out = None if valid is None else [(valid[0], valid[1][:, label])]
            stop = [] if valid is None else [early_stopping(BOOSTING_PATIENCE, verbose=False)]
            models.append(model.fit(X, Y[:, label], eval_set=held_out, callbacks=stop))
        counts = [model.best_iteration_ or model.n_estimators for model in models]
        return lambda new: np.stack([m.predict(new, raw_score=True) for m in models], axis=1), int(np.median(counts))

    def xgboost(
        X: np.ndarray, Y: np.ndarray, valid: tuple[np.ndarray, np.ndarray] | None, rounds: int | None
    ) -> tuple[Predict, int]:
        from xgboost import XGBClassifier

        stopping = {} if valid is None else {"early_stopping_rounds": BOOSTING_PATIENCE}
        model = XGBClassifier(
            n_estimators=rounds or BOOSTING_ROUNDS, learning_rate=0.1, tree_method="hist", n_jobs=1, random_state=seed,
            multi_strategy="multi_output_tree", objective="binary:logistic", **stopping,
        )  # fmt: skip
        model.fit(X, Y, eval_set=None if valid is None else [valid], verbose=False)
        count = rounds or model.best_iteration + 1
        return lambda new: np.asarray(model.predict(new, output_margin=True)), int(count)

    def catboost(
        X: np.ndarray, Y: np.ndarray, valid: tuple[np.ndarray, np.ndarray] | None, rounds: int | None
    ) -> tuple[Predict, int]:
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(
            loss_function="MultiLogloss", iterations=rounds or BOOSTING_ROUNDS, learning_rate=0.1, random_seed=seed,
            early_stopping_rounds=None if valid is None else BOOSTING_PATIENCE, thread_count=1,
            allow_writing_files=False, verbose=False,
        )  # fmt: skip
        held_out = None if valid is None else (valid[0], valid[1].astype(np.int64))
        model.fit(X, Y.astype(np.int64), eval_set=held_out)
        count = rounds or model.get_best_iteration() + 1
        return lambda new: np.asarray(model.predict(new, prediction_type="RawFormulaVal")), int(count)

    return {"LightGBM": lightgbm, "XGBoost": xgboost, "CatBoost": catboost}
