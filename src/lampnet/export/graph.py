"""An ONNX graph that is written like NumPy: values with operators, broadcast as arrays are.

>>> graph = Graph()
>>> x = graph.input("x", np.float32, ("rows", 2))
>>> graph.output("twice", x + x, np.float32, ("rows", 2))
>>> [node.op_type for node in graph.proto("twice").node]
['Add', 'Identity']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from lampnet.errors import MissingExtra

try:
    from onnx import GraphProto, helper, numpy_helper
except ImportError:
    raise MissingExtra("onnx", "onnx", "exporting a model") from None

#: operators of this version exist in every onnxruntime since 1.17
OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
ML = "ai.onnx.ml"
Dims = Sequence[int | str]


@dataclass(frozen=True)
class Value:
    """The result of an operator, an input or a constant."""

    graph: Graph
    name: str

    def __add__(self, other: Any) -> Value:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: Any) -> Value:
        return self.graph.op("MatMul", self, other)

    def __neg__(self) -> Value:
        return self.graph.op("Neg", self)

    def __gt__(self, other: Any) -> Value:
        return self.graph.op("Greater", self, other)

    def __lt__(self, other: Any) -> Value:
        return self.graph.op("Less", self, other)

    def __and__(self, other: Any) -> Value:
        return self.graph.op("And", self, other)

    def __or__(self, other: Any) -> Value:
        return self.graph.op("Or", self, other)

    def equals(self, other: Any) -> Value:
        """True where both are the same."""
        return self.graph.op("Equal", self, other)

    def negated(self) -> Value:
        """not, of bools."""
        return self.graph.op("Not", self)

    def cast(self, kind: Any) -> Value:
        """In another type."""
        return self.graph.op("Cast", self, to=_type(kind))

    def reshaped(self, *shape: int) -> Value:
        """0 keeps an axis, -1 is what is left."""
        return self.graph.op("Reshape", self, np.array(shape, np.int64))

    def transposed(self, *order: int) -> Value:
        """The axes in another order."""
        return self.graph.op("Transpose", self, perm=list(order))

    def unsqueezed(self, *axes: int) -> Value:
        """With axes of length one."""
        return self.graph.op("Unsqueeze", self, np.array(axes, np.int64))

    def summed(self, axis: int, keep: bool = True) -> Value:
        """The sum along one axis."""
        return self.graph.op("ReduceSum", self, np.array([axis], np.int64), keepdims=int(keep))

    def maximum(self, axis: int, keep: bool = True) -> Value:
        """The largest along one axis."""
        return self.graph.op("ReduceMax", self, np.array([axis], np.int64), keepdims=int(keep))

    def any(self, axis: int, keep: bool = False) -> Value:
        """Whether one of the bools along an axis is True."""
        return self.cast(np.int32).maximum(axis, keep).cast(bool)

    def sliced(self, start: int, end: int, axis: int) -> Value:
        """x[start:end] along one axis."""
        return self.graph.op("Slice", self, *(np.array([number], np.int64) for number in (start, end, axis)))

    def taken(self, index: Any, axis: int) -> Value:
        """np.take."""
        return self.graph.op("Gather", self, index, axis=axis)

    def taken_along(self, index: Any, axis: int) -> Value:
        """np.take_along_axis."""
        return self.graph.op("GatherElements", self, index, axis=axis)

    def size(self, axis: int) -> Value:
        """The length of an axis, int64 (1,)."""
        return self.graph.op("Shape", self, start=axis, end=axis + 1)


class Graph:
    """Inputs, outputs, constants and operators of one graph, and of the graphs inside it."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[bytes, str] = {}
        self._scopes: list[list[Any]] = [[]]
        self._made = 0

    def op(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> Value:
        """One operator with one result."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, results: int, *inputs: Any, domain: str = "", **attributes: Any) -> list[Value]:
        """One operator with several results; arrays and numbers become constants."""
        names = [self.value(given).name for given in inputs]
        made = [self._name(kind) for _ in range(results)]
        self._scopes[-1].append(helper.make_node(kind, names, made, domain=domain, **attributes))
        return [Value(self, name) for name in made]

    def value(self, given: Any) -> Value:
        """A value as it is; an array as a constant, kept once; Python floats are float32."""
        if isinstance(given, Value):
            return given
        array = np.asarray(np.float32(given) if type(given) is float else given)
        array = np.ascontiguousarray(array).reshape(array.shape)  # which alone would give a number an axis
        key = sha256(str((array.dtype, array.shape)).encode() + array.tobytes()).digest()
        if key not in self._known:
            self._known[key] = self._name("constant")
            self.constants.append(numpy_helper.from_array(array, self._known[key]))
        return Value(self, self._known[key])

    def input(self, name: str, kind: Any, dims: Dims, default: np.ndarray | None = None) -> Value:
        """An input of the graph; one with a default may be left out."""
        self.inputs.append(helper.make_tensor_value_info(name, _type(kind), list(dims)))
        if default is not None:
            self.constants.append(numpy_helper.from_array(default, name))
        return Value(self, name)

    def output(self, name: str, value: Value, kind: Any, dims: Dims) -> None:
        """An output of the graph."""
        self._scopes[-1].append(helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, _type(kind), list(dims)))

    def where(self, condition: Value, yes: Any, no: Any) -> Value:
        """np.where."""
        return self.op("Where", condition, yes, no)

    def joined(self, values: Sequence[Any], axis: int) -> Value:
        """np.concatenate."""
        return self.value(values[0]) if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def mean(self, values: Sequence[Value]) -> Value:
        """The mean of several values of one shape."""
        return values[0] if len(values) == 1 else self.op("Mean", *values)

    def filled(self, shape: Value, fill: Any, kind: Any) -> Value:
        """An array of one number."""
        return self.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([fill], kind)))

    def scattered(self, onto: Value, index_BK: Value, values_BK: Value, add: bool = False) -> Value:
        """np.put_along_axis on the second axis, into a copy; `add` adds instead."""
        return self.op("ScatterElements", onto, index_BK, values_BK, axis=1, **({"reduction": "add"} if add else {}))

    def top(self, x_BL: Value, count: Any, axis: int = 1) -> tuple[Value, Value]:
        """The largest `count` (int64 (1,)) along an axis and their places, equals by their place."""
        values, places = self.ops("TopK", 2, x_BL, count, axis=axis, largest=1, sorted=1)
        return values, places

    def chosen(self, condition: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """The result of one of two functions, of which only one is computed; condition bool (), result float32."""
        branches = {}
        for name, make in (("then_branch", yes), ("else_branch", no)):
            with self._inner() as nodes:
                branches[name] = _inner_graph(nodes, [], [(self.op("Identity", make()).name, np.float32)])
        return self.op("If", condition, **branches)

    def repeated(self, times: Value, start: Value, step: Callable[[Value, Value], Value]) -> Value:
        """step(step number, value) so many times; times int64 (), values float64."""
        number, going, state = (self._name(name) for name in ("number", "going", "state"))
        with self._inner() as nodes:
            after = step(Value(self, number), Value(self, state))
            on = self.op("Identity", Value(self, going))
            taken = [(number, np.int64), (going, bool), (state, np.float64)]
            body = _inner_graph(nodes, taken, [(on.name, bool), (after.name, np.float64)])
        return self.op("Loop", times, np.array(True), start, body=body)

    def for_each_row(self, x_BF: Value, step: Callable[[Value], Value], sizes: tuple[int, int]) -> Value:
        """step(row) of every row, (B, n); it takes as much memory as one row needs.

        sizes  F of a row and n of its result
        """
        row = self._name("row")
        with self._inner() as nodes:
            infos = zip((row, step(Value(self, row)).name), sizes, strict=True)
            taken, given = (helper.make_tensor_value_info(name, _type(np.float32), [size]) for name, size in infos)
            body = helper.make_graph(nodes, "row", [taken], [given])
        return self.op("Scan", x_BF, body=body, num_scan_inputs=1)

    def proto(self, name: str) -> GraphProto:
        """The graph."""
        return helper.make_graph(self._scopes[0], name, self.inputs, self.outputs, self.constants)

    def constant_bytes(self) -> int:
        """How much the constants and the tables of trees take."""
        attributes = (attribute for node in self._scopes[0] for attribute in node.attribute)
        return int(sum(len(one.raw_data) for one in self.constants) + sum(one.ByteSize() for one in attributes))

    @contextmanager
    def _inner(self) -> Iterator[list[Any]]:
        self._scopes.append([])
        try:
            yield self._scopes[-1]
        finally:
            self._scopes.pop()

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}_{self._made}"


def _inner_graph(nodes: list[Any], taken: Sequence[tuple[str, Any]], given: Sequence[tuple[str, Any]]) -> GraphProto:
    """A graph inside another; values without an axis are numbers, all others have any shape."""
    infos = [
        [
            helper.make_tensor_value_info(name, _type(kind), [] if kind in (np.int64, bool) else None)
            for name, kind in some
        ]
        for some in (taken, given)
    ]
    return helper.make_graph(nodes, "inner", *infos)


def _type(kind: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
