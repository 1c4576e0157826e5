"""A committee says the mean of what its members say, and is judged only on rows its members had not seen."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config, ModelConfig, folds_for
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits, fold_numbers, parts_of, random_split
from lampnet.encoders import make_encoder
from lampnet.encoders.nodes import NodeRows
from lampnet.errors import ConfigError
from lampnet.model.build import MEMBER_SEEDS
from lampnet.model.ensemble import Ensemble, heard_as_one, made_ready, networks_of
from lampnet.model.label_edges import LabelGraph
from lampnet.model.lamp import LaMP
from lampnet.pipeline.fit import fit
from lampnet.training.trainer import Progress, Stopped

B, L, F = 5, 12, 9
SMALL = {"model.width": 16, "training.epochs": 2, "training.threads": 1, "training.folds": 3}


def rows(n: int, seed: int) -> sparse.csr_matrix:
    return sparse.csr_matrix(sparse.random(n, F, 0.4, random_state=seed, dtype=np.float32))


def members(candidates: int, base_learners: tuple[str, ...] = ("linear",), kind: str = "full") -> list[LaMP]:
    encoder = make_encoder("wordset", Config.preset("fast").input).fit(rows(20, 0))
    made = []
    for seed in range(3):
        torch.manual_seed(seed)
        config = ModelConfig(width=16, base_learners=base_learners, candidates=candidates)
        network = LaMP(config, L, encoder.embedding(16), LabelGraph(kind, None, L), seed=seed)
        if network.gate is not None:
            network.gate.data.fill_(1.0)
        if base_learners:
            network.stacking_weight.data += 0.3 * torch.randn(L, len(base_learners))
        made.append(network.eval())
    return made


def batch() -> object:
    return NodeRows.from_csr(rows(B, 1)).batch(np.arange(B))


def test_every_stage_and_every_attention_is_the_mean_of_the_members() -> None:
    torch.manual_seed(9)
    single, g = members(0), torch.randn(B, L, 1)
    with torch.inference_mode():
        whole = Ensemble(single)(batch(), g, record=True)
        apart = [network(batch(), g, record=True) for network in single]
    for part in ("stages", "to_input", "to_labels"):
        for stage, heard in enumerate(getattr(whole, part)):
            mean = torch.stack([getattr(output, part)[stage] for output in apart]).mean(0)
            torch.testing.assert_close(heard, mean)


@pytest.mark.parametrize("kind", ["full", "edgeless"])
@pytest.mark.parametrize("base_learners", [("linear",), ()])
def test_members_hear_the_same_candidates_and_their_attention_is_averaged_label_by_label(
    kind: str, base_learners: tuple[str, ...]
) -> None:
    torch.manual_seed(9)
    single, g = members(4, base_learners, kind), torch.randn(B, L, 1) if base_learners else None
    with torch.inference_mode():
        whole = Ensemble(single)(batch(), g, record=True)
        must = torch.zeros(B, L, dtype=torch.bool).scatter(1, whole.candidates, True)
        apart = [network(batch(), g, record=True, forced_BL=must) for network in single]
    assert whole.candidates is not None
    assert (whole.candidates.diff(dim=1) > 0).all(), "candidates come in ascending order"
    for b in range(B):
        for place, label in enumerate(whole.candidates[b].tolist()):
            own = [(output.candidates[b] == label).nonzero().item() for output in apart]
            heard = torch.stack([o.to_input[1][b, :, i] for o, i in zip(apart, own, strict=True)]).mean(0)
            torch.testing.assert_close(whole.to_input[1][b, :, place], heard)
            for other_place, other in enumerate(whole.candidates[b].tolist() if kind == "full" else []):
                theirs = [(output.candidates[b] == other).nonzero().item() for output in apart]
                pair = [o.to_labels[0][b, :, i, j] for o, i, j in zip(apart, own, theirs, strict=True)]
                torch.testing.assert_close(whole.to_labels[0][b, :, place, other_place], torch.stack(pair).mean(0))
    torch.testing.assert_close(whole.stages[-1], torch.stack([o.stages[-1] for o in apart]).mean(0))


def test_the_common_candidates_are_the_best_of_the_mean_opinion() -> None:
    torch.manual_seed(9)
    single, g = members(4), torch.randn(B, L, 1)
    with torch.inference_mode():
        whole = Ensemble(single)(batch(), g)
        opinion = torch.stack([network(batch(), g).initial for network in single]).mean(0)
    assert torch.equal(whole.candidates, opinion.topk(4).indices.sort(dim=1).values)


def test_one_network_is_no_committee_and_members_are_made_ready_one_by_one() -> None:
    single = members(0)
    assert heard_as_one(single[:1]) is single[0]
    ready = made_ready(Ensemble(single), "float32", 3)
    assert [network.candidates for network in networks_of(ready)] == [3, 3, 3]
    assert [network.candidates for network in single] == [0, 0, 0], "the trained ones are left as they are"


def test_more_candidates_than_a_network_learned_with_are_refused() -> None:
    learned_with_four = Ensemble(members(4))
    assert networks_of(made_ready(learned_with_four, "float32", 3))[0].candidates == 3
    for candidates in (0, 5, L):
        with pytest.raises(ConfigError, match="learned with 4 labels a row; give 1 to 4"):
            made_ready(learned_with_four, "float32", candidates)


def dataset(n: int = 90) -> Dataset:
    random = np.random.default_rng(0)
    labels = np.float32(random.random((n, 4)) < 0.3)
    words = (random.random((n, F)) < 0.2) | (np.pad(labels, ((0, 0), (0, F - 4))) > 0)
    names = tuple(f"l{i}" for i in range(4))
    words[:, -1] = True  # a row without any word is judged by the label priors in all rows
    matrix = sparse.csr_matrix(words.astype(np.float32))
    return Dataset(name="toy", kind="wordset", rows=matrix, labels=sparse.csr_matrix(labels), label_names=names)


def test_decisions_are_chosen_on_rows_judged_by_the_network_that_did_not_see_them() -> None:
    """The same network, trained on the other parts alone, says the same of its own part."""
    data = dataset()
    config = Config.preset("fast").updated({**SMALL, "model.base_learners": (), "input.tfidf": "false"})
    model = fit(Splits(train=data), config)
    assert model.valid_proba is not None
    assert model.valid_truth is not None
    done = 0
    for number, (rest, own) in enumerate(parts_of(fold_numbers(len(data), 3, seed=0))):
        alone = config.updated({"training.folds": 1, "training.seed": MEMBER_SEEDS * number})
        twin = fit(Splits(train=data.take(rest), valid=data.take(own)), alone)
        here = slice(done, done + len(own))
        np.testing.assert_array_equal(model.valid_truth[here], data.indicator()[own])
        np.testing.assert_allclose(model.valid_proba[here], twin.proba(data.rows[own]), atol=1e-5)
        done += len(own)
    assert done == len(data)


def test_the_number_of_parts_is_chosen_by_rows_and_given_validation_rows_are_kept_apart() -> None:
    data = dataset(60)
    open_ = Config.preset("fast").updated({**SMALL, "training.folds": 0})
    assert len(networks_of(fit(Splits(train=data), open_).network)) == folds_for(60) == 5
    parts = Splits(train=data.take(np.arange(40)), valid=data.take(np.arange(40, 60)))
    model = fit(parts, open_)
    assert len(networks_of(model.network)) == 1
    assert model.valid_truth is not None
    assert len(model.valid_truth) == 20
    with pytest.raises(ConfigError, match="20 validation rows"):
        fit(parts, Config.preset("fast").updated(SMALL))


def test_validation_rows_that_were_drawn_go_back_to_the_rows_that_a_committee_cuts() -> None:
    """A named set without a publisher's validation part learns from as many rows as the methods beside it."""
    data = dataset(60)
    parts = random_split(data, valid=20, test=10, seed=0)
    open_ = Config.preset("fast").updated({**SMALL, "training.folds": 0})
    model = fit(parts, open_)
    assert len(networks_of(model.network)) == folds_for(50)
    assert model.valid_truth is not None
    assert parts.valid is not None
    known = np.concatenate([parts.train.indicator(), parts.valid.indicator()])
    assert sorted(map(tuple, model.valid_truth)) == sorted(map(tuple, known))
    np.testing.assert_array_equal(fit(parts.merged_back(), open_).proba(data.rows), model.proba(data.rows))
    alone = fit(parts, open_.updated({"training.folds": 1}))
    assert len(networks_of(alone.network)) == 1
    np.testing.assert_array_equal(alone.valid_truth, parts.valid.indicator())


def test_a_run_that_is_ended_in_its_second_network_hands_over_two_and_is_finished_by_resume(tmp_path: Path) -> None:
    data, config = dataset(), Config.preset("fast").updated({**SMALL, "training.epochs": 3})
    whole = fit(Splits(train=data), config)

    def interrupt(event: str, progress: Progress) -> None:
        if event == "epoch" and progress.network == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped) as stopped:
        fit(Splits(train=data), config, folder=tmp_path, callback=interrupt)
    assert len(networks_of(stopped.value.model.network)) == 2
    assert stopped.value.model.config.training.folds == 2
    resumed = fit(Splits(train=data), config, folder=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.proba(data.rows), whole.proba(data.rows))
    assert resumed.decisions == whole.decisions
