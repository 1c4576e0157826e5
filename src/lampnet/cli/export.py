"""`lampnet export`: a model as a file that runs without lampnet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli import options


def command(
    model: options.ModelArgument,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="The ONNX file to write.")],
) -> None:
    """Write a model as one ONNX file, from rows (and known labels) to probabilities, for onnxruntime."""
    from lampnet.export.to_onnx import OnnxModel
    from lampnet.persistence.model_folder import load_model

    made = OnnxModel(load_model(model))
    made.save(onnx)
    for value in made.graph.inputs:
        shape = ", ".join(dim.dim_param or str(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
        typer.echo(f"input {value.name} ({shape}){', optional' if value.name == 'known' else ''}")
    typer.echo(f"outputs probabilities, logits (rows, {len(made.model.label_names)})")
    typer.echo(f"{onnx}: {onnx.stat().st_size / 1e6:.1f} MB")
