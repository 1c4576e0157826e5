"""The journal of a search: the lines that Optuna writes, each of which is checked before Optuna acts on it.

The file may be somebody else's, so only what `tune` writes is let through: one study, trials one after the other,
settings inside the ranges of this search, scores between 0 and 1. What a killed process left of its last line is cut
off. Whoever uses it has claimed the folder; Optuna's lock, which a killed process leaves behind, is not needed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lampnet.errors import ConfigError
from lampnet.runtime.atomic_files import flush_to_disk
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import append_regular, open_regular

STUDY = "lampnet"
MOST_BYTES = 1 << 27
MOST_TRIALS = 10_000
_MOST_LINE, _MOST_VALUES = 1 << 20, 10_000
#: how every line of Optuna's begins
_BEGINNING = b'{"op_code":'
_COMMON = {"op_code", "worker_id"}
_TOGETHER = "tpe:relative_params:0"
_MAXIMIZE = 2
_RUNNING, _COMPLETE, _PRUNED, _FAILED, _WAITING = range(5)


@dataclass(frozen=True)
class ExpectedSearch:
    """What the journal of a search may hold.

    metadata  what the search is about, and the settings that all its trials share; a journal of another one is refused
    first     the settings of the first trial
    space     Optuna's distribution of each setting that is searched
    steps     how many scores a trial may report
    """

    metadata: Mapping[str, Mapping[str, Any]]
    first: Mapping[str, Any]
    space: Mapping[str, Any]
    steps: int


class StudyJournal:
    """What Optuna's `JournalStorage` reads from and writes to; the file is made where it is missing."""

    def __init__(self, path: Path, expected: ExpectedSearch) -> None:
        self.path = path
        self._checks = _Checks(path.parent, expected)
        self._lines, self._size, self._is_read = 0, 0, False
        self._written: list[dict[str, Any]] = []  # since it was read last
        append_regular(path).close()

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """The lines after those that were read already."""
        if not self._is_read:
            self._is_read = True
            yield from self._stored()
        new, self._written = self._written, []
        yield from new

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write whole lines, or none."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        if os.lstat(self.path).st_size != self._size:  # an `OSError` where it is gone
            raise ConfigError(f"{self.path} was changed while the search ran; start it again")
        with append_regular(self.path) as file:
            try:
                file.write(text)
                file.flush()
                flush_to_disk(file.fileno())
            except OSError:
                os.truncate(self.path, self._size)
                raise
        self._size += len(text)
        self._written += json.loads(f"[{','.join(text.decode().splitlines())}]")

    def _stored(self) -> Iterator[dict[str, Any]]:
        with open_regular(self.path, MOST_BYTES) as file:
            while line := file.readline(_MOST_LINE):
                number = self._lines + 1
                try:
                    if not line.endswith(b"\n"):
                        self._cut_off(line)
                        return
                    log = parse_json(line, _MOST_VALUES)
                    self._checks.check(log)
                except ConfigError:
                    raise
                except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as fault:
                    said = str(fault) if type(fault) is ValueError else "it is not what a search writes"
                    raise ConfigError(
                        f"{self.path}, line {number}: {said[:150]}; a search cannot be continued with this file: give "
                        "another folder"
                    ) from None
                self._lines, self._size = number, self._size + len(line)
                yield log

    def _cut_off(self, line: bytes) -> None:
        """Drop a last line that was not written to its end."""
        if len(line) >= _MOST_LINE or line[: len(_BEGINNING)] != _BEGINNING[: len(line)]:
            raise ValueError("it is not what a search writes")
        with append_regular(self.path) as file:
            file.truncate(self._size)


class _Checks:
    """What may stand in the next line."""

    def __init__(self, folder: Path, expected: ExpectedSearch) -> None:
        from optuna.distributions import distribution_to_json

        self.folder, self.expected = folder, expected
        self.distributions = {name: json.loads(distribution_to_json(one)) for name, one in expected.space.items()}
        self.seen: set[str] = set()  # names of the metadata so far
        self.created, self.trials = False, 0
        self.state, self.drawn, self.reported = _FAILED, set[str](), 0  # of the last trial
        self.operations: dict[int, tuple[set[str], Callable[[dict[str, Any]], None]]] = {
            0: ({"study_name", "directions"}, self._study),
            2: ({"study_id", "user_attr"}, self._metadata),
            4: ({"study_id", "datetime_start"}, self._trial),
            5: ({"trial_id", "param_name", "param_value_internal", "distribution"}, self._setting),
            6: ({"trial_id", "state", "values"}, self._state),
            7: ({"trial_id", "step", "intermediate_value"}, self._score),
            9: ({"trial_id", "system_attr"}, self._drawn_together),
        }

    def check(self, log: Any) -> None:
        """Raise what is wrong with a line; a `ValueError` has words for it."""
        keys, check = self.operations[_whole(log["op_code"])]
        if log["op_code"] == 4 and "state" in log:
            keys, check = set(_TEMPLATE) | keys | {"state", "system_attrs"}, self._first_trial
        optional = {"datetime_start", "datetime_complete"} if log["op_code"] == 6 else set()
        _require(isinstance(log["worker_id"], str) and keys | _COMMON <= set(log) <= keys | _COMMON | optional)
        if log["op_code"]:
            _require(self.created)
        if log["op_code"] in (2, 4):
            _require(_whole(log["study_id"]) == 0)
        elif log["op_code"]:
            _require(_whole(log["trial_id"]) == self.trials - 1)  # one trial after the other
        check(log)

    def _study(self, log: dict[str, Any]) -> None:
        _require(log["study_name"] == STUDY and log["directions"] == [_MAXIMIZE])
        self.created = True

    def _metadata(self, log: dict[str, Any]) -> None:
        [(name, found)] = log["user_attr"].items()
        _require(name in self.expected.metadata and name not in self.seen and isinstance(found, dict))
        wanted = self.expected.metadata[name]
        if found != wanted:
            changed = [key for key in sorted({*wanted, *found}) if found.get(key) != wanted.get(key)]
            changed = [key[:60] for key in changed if key in wanted] or ["setting"]
            raise ConfigError(
                f"{self.folder} holds a search with another {' and '.join(changed)}; give another folder, or the same "
                "options"
            )
        self.seen.add(name)

    def _new_trial(self, state: int) -> None:
        _require(self.seen == set(self.expected.metadata) and self.state != _WAITING)
        self.trials += 1
        if self.trials > MOST_TRIALS:
            raise ValueError(f"a search has at most {MOST_TRIALS:,} trials")
        self.state, self.drawn, self.reported = state, set(), 0

    def _first_trial(self, log: dict[str, Any]) -> None:
        _require(log["state"] == _WAITING and log["datetime_start"] is None and not self.trials)
        _require(all(log[key] == empty for key, empty in _TEMPLATE.items()))
        _require(log["system_attrs"] == {"fixed_params": self.expected.first})
        self._new_trial(_WAITING)

    def _trial(self, log: dict[str, Any]) -> None:
        _check_moment(log["datetime_start"])
        self._new_trial(_RUNNING)

    def _setting(self, log: dict[str, Any]) -> None:
        name, value = log["param_name"], log["param_value_internal"]
        if name not in self.expected.space:
            raise ValueError(f"{str(name)[:60]!r} is no setting that is searched")
        _require(self.state == _RUNNING and name not in self.drawn)
        if parse_json(log["distribution"].encode(), _MOST_VALUES) != self.distributions[name]:
            raise ValueError(f"{name} was searched in another range")
        if not _is_inside(value, self.expected.space[name]):
            raise ValueError(f"{name} is outside its range")
        self.drawn.add(name)

    def _drawn_together(self, log: dict[str, Any]) -> None:
        """What Optuna's sampler notes of a trial before its settings are drawn."""
        [(name, text)] = log["system_attr"].items()
        _require(name == _TOGETHER and self.state == _RUNNING and not self.drawn)
        for setting, value in parse_json(text.encode(), _MOST_VALUES).items():
            distribution = self.expected.space[setting]
            choices = getattr(distribution, "choices", None)
            _require(_is_inside(value, distribution) if choices is None else value in choices)

    def _state(self, log: dict[str, Any]) -> None:
        state, values = _whole(log["state"]), log["values"]
        if state == _RUNNING:
            _require(self.state == _WAITING and values is None)
            _check_moment(log["datetime_start"])
        else:
            _require(self.state == _RUNNING and state in (_COMPLETE, _PRUNED, _FAILED))
            _require((values is None) if state == _FAILED else (values is not None or state == _PRUNED))
            _require(state != _COMPLETE or self.drawn == set(self.expected.space))
            _check_moment(log["datetime_complete"])
        if values is not None and not (len(values) == 1 and _is_number(values[0]) and 0 <= values[0] <= 1):
            raise ValueError("the score of a trial is not between 0 and 1")
        self.state = state

    def _score(self, log: dict[str, Any]) -> None:
        self.reported += 1
        _require(self.state == _RUNNING and self.reported <= self.expected.steps and _whole(log["step"]) >= 0)
        _require(_is_number(log["intermediate_value"]))


#: what Optuna writes of a trial that waits for its turn, beside its settings
_TEMPLATE: dict[str, Any] = {
    "value": None,
    "values": None,
    "distributions": {},
    "params": {},
    "user_attrs": {},
    "intermediate_values": {},
}


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError("it is not what a search writes")


def _whole(value: Any) -> int:
    """A whole number of few digits; true and false are none."""
    _require(type(value) is int and abs(value) < 1 << 31)
    return int(value)


def _is_number(value: Any) -> bool:
    """A float, which may be no number or infinite, or a whole number that fits into one."""
    return type(value) is float or (type(value) is int and abs(value) < 1 << 31)


def _is_inside(value: Any, distribution: Any) -> bool:
    if not _is_number(value) or not math.isfinite(value):
        return False
    if hasattr(distribution, "choices"):
        return type(value) is int and 0 <= value < len(distribution.choices)
    return bool(distribution.low <= value <= distribution.high) and (
        type(distribution.low) is float or value == int(value)
    )


def _check_moment(text: Any) -> None:
    """A moment that any clock of this century may have shown."""
    _require(isinstance(text, str) and 2000 <= datetime.fromisoformat(text).year < 2200)
