"""Imported by the fork server of conftest.py: the commands' own imports, so that children start fast."""

from __future__ import annotations

from importlib import import_module

from lampnet.cli.app import build

build()
for module in (
    "lampnet.experiments.compare",
    "lampnet.experiments.reproduce",
    "lampnet.experiments.tune",
    "lampnet.pipeline.prepare",
    "lampnet.persistence.model_folder",
    "lampnet.readers.row_chunks",
    "optuna.storages.journal",
):
    import_module(module)
