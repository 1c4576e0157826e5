"""Which commands there are, and what a failure looks like.

A command is the function `command` in the file of its name; `COMMANDS` lists them. These files import
only typer and rich at the top and the rest inside the function, so that `lampnet --help` is quick.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

#: in the order of `lampnet --help`; a new command is one name here and one file beside this one
COMMANDS = (
    "train",
    "prepare",
    "evaluate",
    "predict",
    "explain",
    "audit",
    "complete",
    "labels",
    "serve",
    "export",
    "data",
    "compare",
    "reproduce",
    "tune",
    "bench",
)


def build(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line. A file with an `app` is a group of commands."""
    app = typer.Typer(
        name="lampnet",
        help="Predict sets of labels by Label Message Passing.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_top)
    for name in commands:
        module = import_module(f"lampnet.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    return app


def _top(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from lampnet import __version__

        typer.echo(__version__)
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    from lampnet.errors import LampnetError

    warnings.showwarning = _show_warning
    try:
        # Not typer's `main`, which has exit codes of its own for Ctrl-C and a closed pipe.
        command = typer.main.get_command(build())
        with command.make_context("lampnet", list(arguments)) as context:
            outcome = command.invoke(context)
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except LampnetError as mistake:
        return _explain(str(mistake), 2)
    except KeyboardInterrupt:
        return _explain("stopped", 130)
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as leaving:  # rich raises it when its output is closed
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        return _reader_left()
    except OSError as fault:  # the machine's, at a moment that no sentence was written for: no descriptors left, ...
        where = "" if fault.filename is None else f"{fault.filename}: "
        return _explain(f"{where}{fault.strerror or fault}; put that right and run the command again", 1)
    except MemoryError:
        return _explain("out of memory; give fewer rows, a smaller batch or --set model.width=64", 1)
    except Exception as fault:
        code = _typer_code(fault)
        if code is None:
            raise  # a bug in lampnet: Python prints the traceback and exits with 1
        return code


def _typer_code(fault: Exception) -> int | None:
    """The exit code of one of typer's own exceptions, explained in one line; None for any other exception."""
    kinds = {kind.__name__ for kind in type(fault).__mro__}
    if "Exit" in kinds:
        return int(getattr(fault, "exit_code", 0))
    if "Abort" in kinds:
        return _explain("stopped", 130)
    if "NoArgsIsHelpError" in kinds:
        if (text := getattr(fault, "message", str(fault))).strip():
            typer.echo(text)
        return 0
    if "ClickException" in kinds:
        message: Any = getattr(fault, "format_message", lambda: str(fault))()
        context = getattr(fault, "ctx", None)
        where = f"{context.command_path} --help" if context is not None else "lampnet --help"
        return _explain(f"{message} (see: {where})", 2)
    return None


def _reader_left() -> int:
    """The reader closed the pipe, as `head` does: drop the rest of the output. This is no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _explain(message: str, code: int) -> int:
    print("lampnet: " + " ".join(message.split()), file=sys.stderr)
    return code


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, UserWarning):
        print("lampnet: warning: " + " ".join(str(message).split()), file=sys.stderr)
