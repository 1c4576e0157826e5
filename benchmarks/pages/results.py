"""`docs/results.md`: every data set with the scores of every system, made from result files alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.config import Config
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.compare import SCORES
from lampnet.experiments.protocol import RANKING
from lampnet.experiments.reproduce import SEEDS, other_settings
from lampnet.experiments.result_files import read_results
from lampnet.experiments.systems import SYSTEMS
from lampnet.readers.named.registry import NAMES, describe
from pages.other_tools_section import other_tools_section, read_other_tools
from pages.summary import Cell, Summary, table
from pages.targets import check_targets
from pages.trials_section import read_trials, trials_section

#: The metrics in the order of the paper's tables.
PAPER_ORDER = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy", "hamming_accuracy")
_HEAD = """# Results

`lampnet reproduce` writes this page from the files in `results/`; no number on it was typed by hand.
`lampnet reproduce --page-only` writes it again, and every result file names the command that repeats its run.

All systems share one code path: the same labelled and test rows, and for every baseline the features that LaMP's own
base learners get. Settings are tuned on validation rows, and scores are those of the test rows. Decision rules are
chosen on held-out rows:

- **Up to 25,000 labelled rows**: out-of-fold, with five folds, so that every labelled row is held out once. LaMP keeps
  its five networks as a cross-fitted ensemble; other methods are then fitted again on all labelled rows.
- **Otherwise**: on the validation rows. This holds for more than 25,000 rows, for serially correlated rows (Reuters:
  the last tenth), for single networks (the paper's six forms of LaMP, Emb + MLP, Seq2Seq), and for LaMP where the
  publisher provides validation rows (yeast).

No choice uses test labels, except in the tables called "oracle". The notes at the end describe how the
recipe was found. [The reproduction](reproduction.md) has every table of the paper, and the paper's own network.

How to read the tables:

- **mean ± spread**: the spread is the standard deviation over seeds.
- **The paper's protocol**: for each metric, the best of 27 global thresholds on the held-out rows.
- **Best decision**: for each metric, the best rule on the held-out rows among global thresholds, one threshold per
  label, top-k and expected F1.
- **maAUC, miAUC, mAP**: area under the ROC curve (averaged over labels; over all entries together) and mean average
  precision. They need no decision rule, and separate systems where a constant guess already has a high F1.
- **`constant`**: predicts the label priors for every row, the score that any useful model must beat.
"""


def write_page(folder: Path, page: Path, notes: Path | None = None) -> None:
    """Write the page from the results in `folder`; `notes` is a hand-written section, where there is one."""
    written = notes.read_text(encoding="utf-8") if notes is not None and notes.is_file() else ""
    text = results_page(read_results(folder), written, read_trials(folder), read_other_tools(folder))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def results_page(
    results: Sequence[Mapping[str, Any]],
    notes: str = "",
    trials: Mapping[str, Mapping[str, Any]] | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page as Markdown."""
    summary = Summary(results)
    datasets = [name for name in (*SEEDS, *summary.datasets()) if name in summary.datasets()]
    datasets = list(dict.fromkeys(datasets))
    parts = [_HEAD, _machines(results), _shared_runs(results), _earlier_runs(results)]
    if not results:
        parts.append("There are no results yet; run `lampnet reproduce`.")
    else:
        parts += [_targets(summary), "## Every data set", *(_dataset_section(summary, dataset) for dataset in datasets)]
        parts.append(other_tools_section(summary, tools, {name: dataset_title(name) for name in datasets}))
        missed = [target.dataset for target in check_targets(summary) if target.reached is False]
        parts.append(trials_section(trials or {}, missed, results))
    if notes.strip():
        parts.append(notes.strip())
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _counted(number: int, thing: str) -> str:
    """A number of things, singular for one.

    >>> _counted(1, "core"), _counted(2, "core")
    ('1 core', '2 cores')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _machines(results: Sequence[Mapping[str, Any]]) -> str:
    seen = dict.fromkeys(
        f"{m['cpu']}, {_counted(m['cores'], 'core')} ({_counted(m['threads'], 'torch thread')}), Python {m['python']}, "
        f"torch {m['torch']}"
        for m in (result["machine"] for result in results)
    )
    versions = dict.fromkeys(str(result["version"]) for result in results)
    if not seen:
        return ""
    return f"Measured with lampnet {', '.join(versions)} on: {'; '.join(seen)}."


def _shared_runs(results: Sequence[Mapping[str, Any]]) -> str:
    """Which runs stand for two systems; not where the other one was run again since."""
    by_run = {(result["dataset"], result["system"], result["seed"]): result for result in results}
    twins: dict[tuple[str, str, str], bool] = {}
    for result in results:
        if "same_run_as" in result:
            other = by_run.get((result["dataset"], result["same_run_as"], result["seed"]))
            key = result["dataset"], result["system"], result["same_run_as"]
            alike = other is None or all(other.get(group) == result.get(group) for group in ("best", "paper"))
            twins[key] = twins.get(key, True) and alike
    return " ".join(
        f"On {dataset_title(dataset)} `{name}` has the same settings as `{other}` and shares its runs."
        for (dataset, name, other), alike in twins.items()
        if alike
    )


def _earlier_runs(results: Sequence[Mapping[str, Any]]) -> str:
    """Which runs of LaMP and of its stack are older than a setting of the present default."""
    now = {f"{part}.{name}" for part in ("model", "training") for name in Config().to_json()[part]}
    found: dict[str, list[str]] = {}
    absent: set[str] = set()
    for result in results:
        config = result.get("config")
        if result["system"] not in ("lamp", "stack") or not isinstance(config, Mapping) or "training" not in config:
            continue
        missing = now - {f"{part}.{name}" for part in ("model", "training") for name in config[part]}
        if missing:
            absent |= missing
            titles = found.setdefault(result["system"], [])
            titles += [title] if (title := dataset_title(result["dataset"])) not in titles else []
    if not found:
        return ""
    listed = "; ".join(f"`{system}` on {', '.join(titles)}" for system, titles in found.items())
    settings = ", ".join(f"`{name}`" for name in sorted(absent))
    return (
        f"**Not run again with the present default:** the scores and minutes of {listed}. They were measured before "
        f"these settings existed: {settings}."
    )


def _targets(summary: Summary) -> str:
    checked = check_targets(summary)
    known = [target for target in checked if target.reached is not None]
    rows = [
        [
            dataset_title(target.dataset),
            SCORES[target.score],
            target.asked,
            target.measured,
            "reached" if target.reached else "**missed**",
        ]
        for target in known
    ]
    count = sum(bool(target.reached) for target in known)
    parts = [f"## Targets\n\nScores under the best decision: {count} of {len(known)} measured targets are reached."]
    if rows:
        parts.append(table(["data", "score", "target", "measured", ""], rows))
    waiting = dict.fromkeys(dataset_title(target.dataset) for target in checked if target.reached is None)
    if waiting:
        open_targets = len(checked) - len(known)
        parts.append(f"{open_targets} targets have no result yet; they concern {', '.join(waiting)}.")
    return "\n\n".join(parts)


def _dataset_section(summary: Summary, dataset: str) -> str:
    systems = [name for name in SYSTEMS if summary.has(dataset, name)]
    first = summary.rows[dataset, systems[0]][0]["data"]
    rows = first["rows"]
    about = (
        f"{rows['train']:,} training, {rows['valid']:,} validation and {rows['test']:,} test rows; "
        f"{first['labels']} labels; prior label graph: {first['prior_graph']}."
    )
    if dataset in NAMES:
        about += f" Split: {describe(dataset).parts}."
    if dataset == "yeast_chipexo":
        about += " It stands in for the paper's TFBS data, which are not public, so there are no published scores."
    parts = [f"### {dataset_title(dataset)}", about]
    parts += ["Best decision for each metric, chosen on held-out rows:", _score_table(summary, dataset, systems)]
    parts += [_rules(summary, dataset), _cut_short(summary, dataset, systems)]
    parts += ["The paper's protocol:", _metric_table(summary, dataset, systems, "paper")]
    parts += [
        "Oracle: thresholds chosen on the TEST rows, an upper bound that no choice was based on:",
        _metric_table(summary, dataset, systems, "oracle"),
    ]
    parts.append(_other_settings_note(summary, dataset, systems))
    return "\n\n".join(part for part in parts if part)


def _score_table(summary: Summary, dataset: str, systems: Sequence[str]) -> str:
    names = [*PAPER_ORDER, *RANKING]
    best = {name: _highest(summary.score(dataset, system, name) for system in systems) for name in names}
    headings = ["system", *(SCORES[name] for name in names), "seeds", "fit, minutes", "predict, s", "weights"]
    rows = []
    for system in systems:
        late = summary.unfinished(dataset, system)
        if late is not None:
            rows.append([f"`{system}`", late, *[""] * (len(headings) - 2)])
            continue
        cells = [_marked(summary.score(dataset, system, name), best[name]) for name in names]
        fit, predict = summary.minutes(dataset, system), summary.minutes(dataset, system, "predict")
        weights = summary.weights(dataset, system)
        assert fit is not None
        assert predict is not None
        assert weights is not None
        cost = [str(fit.seeds), f"{fit.mean:.2f}", f"{60 * predict.mean:.1f}", f"{weights.mean:,.0f}"]
        rows.append([f"`{system}`", *cells, *cost])
    return table(headings, rows)


def _metric_table(summary: Summary, dataset: str, systems: Sequence[str], group: str) -> str:
    best = {m: _highest(summary.score(dataset, system, m, group) for system in systems) for m in METRICS}
    rows = []
    for system in systems:
        late = summary.unfinished(dataset, system)
        cells = [late or "", *[""] * (len(PAPER_ORDER) - 1)] if late else []
        cells = cells or [_marked(summary.score(dataset, system, m, group), best[m]) for m in PAPER_ORDER]
        rows.append([f"`{system}`", *cells])
    return table(["system", *(SCORES[m] for m in PAPER_ORDER)], rows)


def _rules(summary: Summary, dataset: str) -> str:
    runs = summary.runs(dataset, "lamp")
    if not runs:
        return ""
    chosen = "; ".join(f"{SCORES[m]}: {runs[0]['decisions'][m]}" for m in PAPER_ORDER)
    return f"Rules that `lamp` chose (seed {runs[0]['seed']}): {chosen}."


def _cut_short(summary: Summary, dataset: str, systems: Sequence[str]) -> str:
    """Networks whose training was ended by the time budget."""
    ended = []
    for system in systems:
        late = [run for run in summary.runs(dataset, system) if run["status"] == "time budget"]
        if late:
            ended.append(f"`{system}` ({max(run['time_budget_minutes'] for run in late):g} minutes)")
    return f"Stopped by the time budget: {', '.join(ended)}." if ended else ""


def _other_settings_note(summary: Summary, dataset: str, systems: Sequence[str]) -> str:
    changed: dict[str, set[str]] = {}
    for system in systems:
        for run in summary.runs(dataset, system):
            for name in other_settings(run):
                section, _, key = name.rpartition(".")
                then = run["config"].get(section, {}) if section else run["config"]
                changed.setdefault(system, set()).add(name if key in then else "newer settings")
    if not changed:
        return ""
    groups: dict[str, list[str]] = {}
    for system, names in changed.items():
        groups.setdefault(", ".join(sorted(names)), []).append(f"`{system}`")
    listed = "; ".join(f"{', '.join(of)} ({names})" for names, of in groups.items())
    return f"Run with settings that differ from this version's defaults, or before some of these existed: {listed}."


def _highest(cells: Iterable[Cell | None]) -> float | None:
    return max((cell.mean for cell in cells if cell is not None), default=None)


def _marked(cell: Cell | None, best: float | None) -> str:
    if cell is None:
        return "–"
    return f"**{cell}**" if cell.mean == best else str(cell)


def dataset_title(dataset: str) -> str:
    """A data set's name in tables.

    >>> dataset_title("reuters21578")
    'Reuters-21578'
    """
    return describe(dataset).title.partition(":")[0] if dataset in NAMES else dataset
