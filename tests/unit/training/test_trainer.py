"""The loop keeps its promises: exact, the same whatever the batch, and back on its feet after a NaN."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lampnet.config import Config
from lampnet.encoders import make_encoder
from lampnet.errors import CheckpointError, TrainingDiverged
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits, probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_member
from lampnet.model.label_graph import label_graph
from lampnet.training.checkpoint import latest_checkpoint
from lampnet.training.progress import Progress, RunContext
from lampnet.training.trainer import Trainer

_spec = importlib.util.spec_from_file_location("toy_training", Path(__file__).parents[2] / "faults" / "toy_training.py")
assert _spec is not None
assert _spec.loader is not None
toy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toy)

QUICK = {**toy.SMALL, "training.epochs": 2, "training.checkpoint_minutes": 1000, "model.base_learners": ()}


def trainer(changes: dict[str, Any] | None = None, unknown: float = 0.0, **options: Any) -> Trainer:
    """A trainer on the toy rows, without base learners or a spectral start, so that it starts at once."""
    config = Config().updated({**QUICK, **(changes or {})})
    splits = toy_splits(unknown)
    train, valid = splits.train, splits.valid
    encoder = make_encoder("wordset", config.input).fit(train.rows)
    network = build_member(config, 6, encoder, label_graph(config.label_graph, 6, labels=train.labels))
    examples = [Examples(nodes=encoder.encode(part.rows).nodes, targets=part.indicator()) for part in (train, valid)]
    return Trainer(network, config.training, *examples, RunContext(**options))


def toy_splits(unknown: float = 0.0) -> Any:
    return toy.toy_splits(unknown=unknown).with_validation(0.1, 0)


def weights_of(run: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in run.parameters]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_two_runs_are_the_same_to_the_last_bit(threads: int) -> None:
    runs = [trainer({"training.threads": threads, "training.epochs": 1, "training.seed": s}) for s in (0, 0, 1)]
    for run in runs:
        run.run()
    assert equal(weights_of(runs[0]), weights_of(runs[1]))
    assert not equal(weights_of(runs[0]), weights_of(runs[2]))


def test_a_short_training_reaches_its_learning_rate() -> None:
    changes = {"training.schedule": "constant", "training.warmup_steps": 200, "training.learning_rate": 1e-3}
    run = trainer({**changes, "training.epochs": 4})
    progress = run.run()
    assert progress.step < 200
    assert [record.learning_rate for record in progress.history][1:] == [pytest.approx(1e-3)] * 3


def test_accumulated_parts_are_one_batch() -> None:
    still = {"model.dropout": 0, "model.node_dropout": 0}
    runs = [trainer({**still, "training.accumulate": parts}, unknown=0.2) for parts in (1, 4)]
    histories = [run.run().history for run in runs]
    assert np.allclose(*[[record.loss for record in history] for history in histories], rtol=1e-5)
    for a, b in zip(*map(weights_of, runs), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_mixed_precision_learns_too() -> None:
    runs = [trainer({"training.precision": precision}) for precision in ("float32", "bfloat16")]
    losses = [run.run().history[-1].loss for run in runs]
    assert losses[0] != losses[1]
    assert abs(losses[0] - losses[1]) < 0.05 * losses[0]


def test_the_model_keeps_the_best_validation_epoch() -> None:
    run = trainer({"training.epochs": 4, "training.learning_rate": 0.02})
    progress = run.run()
    truth = run.valid.targets
    proba = probabilities(predict_logits(run.model, run.valid))
    from lampnet.evaluation.choose_rules import choose_paper_thresholds

    rule = choose_paper_thresholds(truth, proba)["example_f1"]
    assert METRICS["example_f1"](truth, rule.apply(proba)) == progress.best_score
    assert progress.best_score == max(record.score for record in progress.history)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> FittedModel:
    fitted: FittedModel = toy.train(tmp_path_factory.mktemp("toy"), False, lambda line: None, {"training.epochs": 1})
    return fitted


def test_a_row_has_its_result_whatever_batch_it_is_in(model: FittedModel) -> None:
    rows = toy_splits().train.rows[:100]
    (examples,) = model.views(model.encoder.encode(rows))
    whole = predict_logits(model.network, examples, batch_size=100)
    for size in (1, 7, 64):
        assert np.abs(predict_logits(model.network, examples, batch_size=size) - whole).max() < 1e-5
    assert np.abs(model.logits(rows[::-1]) - whole[::-1]).max() < 1e-5


def test_a_row_has_its_result_whatever_the_threads(model: FittedModel) -> None:
    rows, before = toy_splits().train.rows, torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(model.logits(rows))
    finally:
        torch.set_num_threads(before)
    assert np.abs(results[0] - results[1]).max() < 1e-5


class Fault:
    """Puts a NaN into a weight after some steps, once; may end the run later, as a kill would."""

    class Killed(Exception):
        pass

    def __init__(self, poison_at: int, kill_at: int = -1) -> None:
        self.poison_at, self.kill_at = poison_at, kill_at
        self.events: list[str] = []
        self.run: Trainer | None = None

    def __call__(self, event: str, progress: Progress) -> None:
        if event != "step":
            self.events.append(event)
            return
        assert self.run is not None
        if progress.step == self.poison_at and not progress.step_backs:
            with torch.no_grad():
                self.run.parameters[0].fill_(math.nan)
        if progress.step == self.kill_at and progress.step_backs:
            raise self.Killed


def poisoned(folder: Path, kill_at: int = -1) -> tuple[Trainer, Fault]:
    fault = Fault(18, kill_at)
    fault.run = trainer(folder=folder, callback=fault)
    return fault.run, fault


def test_after_a_nan_the_run_steps_back_and_learns_at_half_the_rate(tmp_path: Path) -> None:
    run, fault = poisoned(tmp_path)
    progress = run.run()
    assert fault.events.count("step back") == 1
    assert progress.step_backs == 1
    assert progress.status == "finished"
    assert all(torch.isfinite(weight).all() for weight in weights_of(run))
    plain = trainer()
    plain.run()
    rates = [r.optimizer.param_groups[0]["lr"] for r in (run, plain)]
    assert rates[0] == rates[1] / 2


def test_a_kill_after_a_step_back_does_not_bring_the_old_rate_back(tmp_path: Path) -> None:
    undisturbed, _ = poisoned(tmp_path / "a")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed.run()
    killed, fault = poisoned(tmp_path / "b", kill_at=20)
    with pytest.raises(Fault.Killed):
        killed.run()
    assert "step back" in fault.events
    found, _ = latest_checkpoint(tmp_path / "b")
    assert found is not None
    assert found.state["progress"]["step_backs"] == 1
    resumed = trainer(folder=tmp_path / "b")
    resumed.run(resume=True)
    assert equal(weights_of(resumed), weights_of(undisturbed))


def test_a_run_that_keeps_diverging_stops_with_a_sentence(tmp_path: Path) -> None:
    run = trainer({"training.learning_rate": 1e30, "training.warmup_steps": 0, "training.clip": 0}, folder=tmp_path)
    with pytest.raises(TrainingDiverged, match=r"lower training\.learning_rate"):
        run.run()
    assert run.progress.step_backs == 3
    with pytest.raises(TrainingDiverged):  # nowhere to step back to
        trainer({"training.learning_rate": 1e30, "training.warmup_steps": 0}).run()


def test_a_time_budget_ends_the_run_and_more_time_continues_it(tmp_path: Path) -> None:
    assert trainer({"training.time_budget": 1e-9}, folder=tmp_path).run().status == "time budget"
    progress = trainer({"training.time_budget": 0}, folder=tmp_path).run(resume=True)
    assert progress.status == "finished"
    assert len(progress.history) == 2


def test_a_finished_run_is_not_trained_further_and_may_be_replaced(tmp_path: Path) -> None:
    first = trainer(folder=tmp_path)
    first.run()
    again = trainer(folder=tmp_path)
    assert again.run(resume=True).step == first.progress.step
    assert equal(weights_of(first), weights_of(again))
    assert trainer({"training.seed": 5}, folder=tmp_path).run().status == "finished"


def test_an_unfinished_run_is_not_overwritten(tmp_path: Path) -> None:
    stopped = trainer(folder=tmp_path, callback=_stop_at(15))
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    with pytest.raises(CheckpointError, match="has not ended"):
        trainer(folder=tmp_path).run()


def _stop_at(step: int) -> Any:
    def hear(event: str, progress: Progress) -> None:
        if progress.step == step:
            raise KeyboardInterrupt

    return hear


def test_every_epoch_keeps_its_five_validation_scores() -> None:
    run = trainer({"training.epochs": 2, "training.metric": "micro_f1"})
    history = run.run().history
    assert [set(record.scores) for record in history] == [set(METRICS)] * 2
    assert [record.scores["micro_f1"] for record in history] == [record.score for record in history]
