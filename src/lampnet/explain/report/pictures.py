"""The paper's three pictures of one prediction (its figure 2 and the appendix figure), as PNG and SVG.

(a) stages by labels, true labels in red; (b) positive labels by input nodes at each t.1; (c) positive labels
by positive labels at each t.2. Attention is summed over the heads, as in the paper.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.explain.explanation import Explanation, strongest
from lampnet.runtime.atomic_files import make_folders, replace_files

MOST_LABELS, MOST_POSITIVE, MOST_NODES = 24, 14, 24
TRUE_RED = "#c4281b"
_LONGEST = 22


def drawn_pictures(
    e: Explanation, stem: str | None = None, formats: Sequence[str] = ("png", "svg")
) -> dict[str, bytes]:
    """The files `<stem>_stages`, `<stem>_to_input` and `<stem>_to_labels`, by name."""
    stem = stem if stem is not None else f"row{e.row}"
    drawn = {}
    figures = {"stages": stages_figure, "to_input": input_figure, "to_labels": labels_figure}
    for name, draw in figures.items():
        if not e.steps and name != "stages":
            continue  # without a network there is no attention
        figure = draw(e)
        for form in formats:
            content = io.BytesIO()
            # Without a date the same explanation gives the same file.
            figure.savefig(content, format=form, dpi=110, metadata={"Date": None} if form == "svg" else None)
            figure.set_layout_engine("none")  # what the first format arranged serves the next one too
            drawn[f"{stem}_{name}.{form}"] = content.getvalue()
    return drawn


def write_pictures(e: Explanation, folder: str | Path, *given: Any, **options: Any) -> list[Path]:
    """Write what `drawn_pictures` gives, whole files or none, and return the files."""
    folder = Path(folder)
    make_folders(folder, [])
    files = {folder / name: (picture,) for name, picture in drawn_pictures(e, *given, **options).items()}
    replace_files(files)
    return list(files)


def stages_figure(e: Explanation) -> Any:
    """(a) every stage's probabilities, stages by labels."""
    shown = _labels_shown(e)
    values = e.stage_proba[:, shown]
    figure, (axes,) = _figure(max(4.6, 0.36 * len(shown) + 1.9), 0.34 * len(e.stages) + 2.1, 1)
    image = _grid(axes, values, 1.0)
    axes.set_yticks(range(len(e.stages)), [f"{s}  initial" if s == "0" else s for s in e.stages])
    _name_labels(axes, e, shown, "x")
    axes.set_title(_title(e, "Predictions after every stage"), fontsize=9, loc="left")
    _scale(figure, axes, image).set_label("probability", fontsize=8)
    return figure


def input_figure(e: Explanation) -> Any:
    """(b) label-to-feature attention of the positive labels, one panel per step."""
    labels = e.positive()[:MOST_POSITIVE]
    summed = e.to_input.sum(axis=1)[:, labels]  # (T, K, N)
    nodes = strongest(summed, MOST_NODES)
    names = [_middle_out(e.nodes[i].name) for i in nodes]
    height = (0.26 * max(2, len(labels)) + 0.8) * e.steps + 1.0
    figure, panels = _figure(max(4.6, 0.3 * len(nodes) + 2.4), height, e.steps)
    for step, axes in enumerate(panels):
        image = _grid(axes, summed[step][:, nodes], max(1e-6, float(summed[step].max(initial=0.0))), "Greys")
        _name_labels(axes, e, labels, "y")
        shown = names if step == e.steps - 1 else [""] * len(nodes)
        axes.set_xticks(range(len(nodes)), shown, rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
        axes.set_title(f"Stage {step + 1}.1 (sum over {e.heads} heads)", fontsize=9, loc="left")
        _scale(figure, axes, image)
    figure.suptitle(_title(e, "Label-to-feature attention"), fontsize=9, x=0.01, ha="left")
    _note_left_out(figure, e, nodes, labels)
    return figure


def labels_figure(e: Explanation) -> Any:
    """(c) label-to-label attention among the positive labels, one panel per step."""
    labels = e.positive()[:MOST_POSITIVE]
    summed = e.to_labels.sum(axis=1)[:, labels][:, :, labels]
    side = 0.3 * max(2, len(labels))
    figure, panels = _figure((side + 1.6) * e.steps + 1.0, side + 2.0, e.steps, across=True)
    for step, axes in enumerate(panels):
        image = _grid(axes, summed[step], max(1e-6, float(summed[step].max(initial=0.0))), "Greys")
        _name_labels(axes, e, labels, "x")
        if step == 0:
            _name_labels(axes, e, labels, "y")
            axes.set_ylabel("attends to", fontsize=8)
        else:
            axes.set_yticks([])
        axes.set_title(f"Stage {step + 1}.2 (sum over heads)", fontsize=9, loc="left")
        _scale(figure, axes, image)
    figure.suptitle(_title(e, "Label-to-label attention"), fontsize=9, x=0.01, ha="left")
    return figure


def _figure(width: float, height: float, panels: int, across: bool = False) -> tuple[Any, list[Any]]:
    # The object interface: no display, no global state, nothing to close.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(width, 11.0), min(height, 11.0)), layout="constrained")
    FigureCanvasAgg(figure)
    shape = (1, panels) if across else (panels, 1)
    return figure, list(figure.subplots(*shape, squeeze=False).ravel())


def _grid(axes: Any, values: np.ndarray, top: float, colours: str = "Blues") -> Any:
    shown = values if values.size else np.zeros((1, 1))
    image = axes.imshow(shown, aspect="auto", cmap=colours, vmin=0.0, vmax=top, interpolation="nearest")
    axes.set_xticks(np.arange(-0.5, shown.shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, shown.shape[0]), minor=True)
    axes.grid(which="minor", color="#d5d9df", linewidth=0.6)
    axes.tick_params(which="both", length=0, labelsize=7.5)
    for side in axes.spines.values():
        side.set_color("#9aa3ad")
    return image


def _scale(figure: Any, axes: Any, image: Any) -> Any:
    bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02, aspect=14)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_edgecolor("#9aa3ad")
    return bar


def _name_labels(axes: Any, e: Explanation, labels: Sequence[int] | np.ndarray, side: str) -> None:
    names = [_short(e.labels[i]) for i in labels]
    if side == "x":
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=7.5)
        texts = axes.get_xticklabels()
    else:
        axes.set_yticks(range(len(names)), names, fontsize=7.5)
        texts = axes.get_yticklabels()
    for text, i in zip(texts, labels, strict=True):
        if e.truth is not None and e.truth[i] > 0:
            text.set_color(TRUE_RED)
            text.set_fontweight("bold")


def _labels_shown(e: Explanation) -> list[int]:
    """The positive labels and the most probable others, most probable first."""
    positive = set(e.positive().tolist()) | set(np.flatnonzero(e.chosen).tolist())
    return sorted(sorted(range(len(e.labels)), key=lambda i: (i not in positive, i))[:MOST_LABELS])


def _note_left_out(figure: Any, e: Explanation, nodes: np.ndarray, labels: np.ndarray) -> None:
    parts = []
    if len(nodes) < e.n_nodes:
        parts.append(f"the {len(nodes)} most attended of {e.n_nodes} input nodes")
    if len(labels) < len(e.positive()):
        parts.append(f"{len(labels)} of {len(e.positive())} positive labels")
    if parts:
        figure.supxlabel("Shown: " + " and ".join(parts), fontsize=7.5, color="#5a6472")


def _title(e: Explanation, what: str) -> str:
    return f"{what}: {_plain(e.data)}, {_short(e.id)}"


def _middle_out(name: str) -> str:
    """A long name without its middle: columns of a table often differ at their ends only.

    >>> _middle_out("Mean_Acc1298_Mean_Mem40_MFCC_4")
    'Mean_Acc1…Mem40_MFCC_4'
    """
    name = _plain(name)
    return name if len(name) <= _LONGEST else name[:9] + "…" + name[len(name) - (_LONGEST - 10) :]


def _short(name: str) -> str:
    name = _plain(name)
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _plain(text: str) -> str:
    """One line without signs that matplotlib would read as formulas or that no font has."""
    line = "".join(sign if sign.isprintable() and ord(sign) < 0x2500 else "·" for sign in " ".join(text.split()))
    return line.replace("$", r"\$")
