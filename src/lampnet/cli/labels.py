"""`lampnet labels MODEL`: the labels of a model, and how to add, rename, merge and drop them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli import options
from lampnet.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from lampnet.estimator import LaMPClassifier
    from lampnet.readers.sources import Source

#: what can be done, and what must be given for it
EDITS = {"add": "NAME EXAMPLES", "rename": "OLD NEW", "merge": "NAME NAME ... --into NEW", "drop": "NAME ..."}


def command(
    model: options.ModelArgument,
    edit: Annotated[
        str | None, typer.Argument(metavar="[add|rename|merge|drop]", help="What to do; by default labels are listed.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="The labels; for add, a name and a file of examples.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the changed model goes.")] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NAME", help="merge: what the merged label is called.")
    ] = None,
    prior: Annotated[
        float | None, typer.Option("--prior", help="add: the share of all rows that have the label, 0 to 1.")
    ] = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    label_columns: options.LabelColumns = None,
    pretrained: options.Pretrained = None,
    as_json: options.AsJson = False,
) -> int:
    """List the labels of a model, or write a model whose labels are changed."""
    from lampnet.estimator import LaMPClassifier
    from lampnet.persistence.model_folder import check_target

    fitted = LaMPClassifier.load(model, pretrained)
    if edit is None:
        _list(fitted, as_json)
        return 0
    if edit not in EDITS:
        raise ConfigError(f"labels cannot be {edit!r}; {did_you_mean(edit, EDITS)}")
    given = names or []
    if out is None or out.resolve() == model.resolve():
        raise ConfigError(f"give --out DIR, another folder than {model}, for the model with changed labels")
    if (out / "model.json").exists():
        raise ConfigError(f"{out} holds a model; give another folder")
    check_target(out)
    wanted = {"add": len(given) == 2, "rename": len(given) == 2, "merge": len(given) >= 2, "drop": len(given) >= 1}
    if not wanted[edit] or (edit == "merge") != (into is not None) or (prior is not None and edit != "add"):
        raise ConfigError(f"labels {edit} takes {EDITS[edit]}; see lampnet labels --help")
    if edit == "rename":
        fitted.rename_label(given[0], given[1])
    elif edit == "merge":
        fitted.merge_labels(given, into)
    elif edit == "drop":
        for name in given:
            fitted.drop_label(name)
    else:
        source = options.source_of(given[1], None, None, columns, None, label_columns, encoding=encoding)
        _add(fitted, given[0], source, prior)
    fitted.save(out)
    options.log(f"{fitted.model_.metadata['label_edits'][-1]}; the model is in {out}")
    return 0


def _list(fitted: LaMPClassifier, as_json: bool) -> None:
    priors = fitted.model_.label_priors
    assert priors is not None
    found = dict(zip(fitted.model_.label_names, (round(float(prior), 6) for prior in priors), strict=True))
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, prior in found.items():
        typer.echo(f"{prior:.4f}  {name}")


def _add(fitted: LaMPClassifier, name: str, source: Source, prior: float | None) -> None:
    """Learn a label from a file of rows, some of which have it."""
    from dataclasses import replace

    import numpy as np

    from lampnet.inference.match_schema import as_trained, match_rows
    from lampnet.pipeline.label_edits import add_label

    rows = as_trained(fitted.model_, source).part("train", 0, options.log)
    if rows.labels is None or name not in rows.label_names:
        raise DataError(
            f"{source.data}: no row has the label {name!r}; give rows that have it and rows that do not, labelled as "
            "those of the training (or --label-columns NAME)"
        )
    y = np.asarray(rows.labels[:, rows.label_names.index(name)].toarray(), dtype=np.float64).ravel()
    known = np.flatnonzero(~np.isnan(y))
    matched = match_rows(fitted.model_, replace(rows, labels=None, label_names=()), rows.name).take(known)
    fitted._to_edit()
    encoded = fitted.model_.encoder.encode(matched.rows, matched.row_edges)
    fitted.model_ = add_label(fitted.model_, name, encoded, y[known], prior)
    fitted.classes_ = np.array([*fitted.classes_.tolist(), name], dtype=object)
