"""Windows of DNA."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows
from lampnet.encoders.dna import GAPPED_WEIGHT, UNKNOWN_BASE, canonical_words, reverse_complement, word_offsets
from lampnet.export.base_learners import unit_rows
from lampnet.export.graph import Value
from lampnet.export.nodes import Nodes
from lampnet.export.rows.base import Arrays, RowInput


class DnaInput(RowInput):
    """Bases by number: A, C, G, T, N are 0 to 4."""

    @cached_property
    def bases_BW(self) -> Value:
        return self.input("bases", np.uint8, "rows", self.encoder.window).cast(np.int64)

    def views(self) -> list[Nodes]:
        config, window = self.encoder.config, self.encoder.window
        kept = min(window, config.max_nodes * config.pool)
        places = np.arange(-(-kept // config.pool))
        views = [self.bases_BW]
        if config.both_strands:
            other = self.graph.value(reverse_complement(np.arange(5, dtype=np.uint8)[None, ::-1])[0].astype(np.int64))
            views.append(other.taken(self.bases_BW.taken(np.arange(window)[::-1].copy(), axis=1), axis=0))
        return [Nodes(vectors_BSF=view.sliced(0, kept, 1), positions=places) for view in views]

    @cached_property
    def features(self) -> Value:
        words, gaps = self._word_counts([0]), self.encoder.config.gap_lengths
        if not gaps:
            return words
        return unit_rows(self.graph, self.graph.joined([words, self._word_counts(gaps) * GAPPED_WEIGHT], 1))

    def _word_counts(self, gaps: Sequence[int]) -> Value:
        """Log counts of words around any of these gaps, each row of length one."""
        graph, (table, n_words) = self.graph, canonical_words()
        counts = self.zeros(self.bases_BW, n_words)
        for gap in gaps:
            offsets = word_offsets(gap)
            starts = self.encoder.window - offsets[-1]
            if starts < 1:
                continue
            steps = [self.bases_BW.sliced(i, i + starts, 1) for i in offsets]
            code, whole = steps[0], steps[0] < np.int64(UNKNOWN_BASE)
            for step in steps[1:]:
                code, whole = code * np.int64(4) + step, whole & (step < np.int64(UNKNOWN_BASE))
            number = graph.value(table.astype(np.int64)).taken(graph.where(whole, code, np.int64(0)), axis=0)
            counts = counts + self.counts(graph.where(whole, number, np.int64(-1)), n_words)
        return unit_rows(graph, graph.op("Log", counts + 1.0))

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        return {"bases": encoded.parsed}
