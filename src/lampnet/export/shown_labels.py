"""Labels that were added, merged or dropped since the training, as ONNX operators: `ShownLabels.logits`."""

from __future__ import annotations

import numpy as np

from lampnet.export.graph import Graph, Value
from lampnet.inference.shown_labels import ShownLabels

DOUBLE = np.float64
#: below this, log(1 + x) is x to all digits that count
SMALL = DOUBLE(1e-7)


def shown_logits(graph: Graph, shown: ShownLabels, logits_BS: Value) -> Value:
    """Logits (B, L) of the labels that are shown."""
    if all(len(group) == 1 for group in shown.groups):
        return logits_BS.taken(np.array([group[0] for group in shown.groups], np.int64), axis=1)
    columns = []
    for group in shown.groups:
        own = logits_BS.taken(np.array(group, np.int64), axis=1)
        columns.append(own if len(group) == 1 else _any_of(graph, own.cast(DOUBLE)).cast(np.float32))
    return graph.joined(columns, axis=1)


def _any_of(graph: Graph, logits_BG: Value) -> Value:
    """`any_of`, (B, 1): the log-odds that at least one of independent events happens."""
    likely = graph.op("Exp", -graph.op("Abs", logits_BG))
    one_and = graph.op("Log", likely + DOUBLE(1))
    softplus = graph.op("Max", logits_BG, DOUBLE(0)) + graph.where(likely < SMALL, likely, one_and)
    none = softplus.summed(1)  # -log P(none of them)
    bounded = graph.op("Min", none, DOUBLE(2))
    # Where it is hardly possible or all but certain, the difference to 1 would be lost.
    rare = graph.where(none < SMALL, graph.op("Log", none), graph.op("Log", graph.op("Exp", bounded) - DOUBLE(1)))
    often = none + graph.op("Log", graph.value(DOUBLE(1)) - graph.op("Exp", -none))
    return graph.where(none > DOUBLE(1), often, rare)
