"""The Open Inference Protocol, spoken by Triton's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running_service import Running, serving

from lampnet import LaMPClassifier

TEXTS = ["about rome and rain", "a cup", "ünïcode", ""]


@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client_gets_the_models_probabilities(service: Running, topics: Path, binary: bool) -> None:
    client_library = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
    client = client_library.InferenceServerClient(service.url.removeprefix("http://"))
    model = LaMPClassifier.load(topics)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("topics")
    described = client.get_model_metadata("topics")
    assert [one["name"] for one in described["inputs"]] == ["text", "known"]
    text = client_library.InferInput("text", [len(TEXTS)], "BYTES")
    text.set_data_from_numpy(np.array(TEXTS, dtype=object), binary_data=binary)
    known = client_library.InferInput("known", [len(TEXTS), len(model.classes_)], "INT8")
    states = np.full((len(TEXTS), len(model.classes_)), -1, dtype=np.int8)
    states[0, 0] = 1
    known.set_data_from_numpy(states, binary_data=binary)
    wanted = [client_library.InferRequestedOutput(name, binary_data=binary) for name in ("labels", "probabilities")]
    result = client.infer("topics", [text, known], outputs=wanted)
    expected = np.where(states < 0, np.nan, states)
    np.testing.assert_allclose(result.as_numpy("probabilities"), model.predict_proba(TEXTS, known=expected), atol=1e-6)
    np.testing.assert_array_equal(result.as_numpy("labels"), model.predict(TEXTS, known=expected).astype(bool))
    default = client.infer("topics", [text])
    np.testing.assert_allclose(default.as_numpy("probabilities"), model.predict_proba(TEXTS), atol=1e-6)
    client.close()


class Kinds:
    """Models of vectors and of several parts in one service, and rows for each as a tensor."""

    def __init__(self, folder: Path) -> None:
        pandas = pytest.importorskip("pandas")
        draw = np.random.default_rng(0)
        truth = draw.random((96, 3)) < 0.4
        vectors = (truth @ draw.normal(size=(3, 5)) + 0.1 * draw.normal(size=(96, 5))).astype(np.float32)
        words = np.array(["a", "war", "song"])
        plots = [" and ".join(words[row]) or "none" for row in truth]
        films = pandas.DataFrame({"plot": plots, "year": 1950.0 + np.arange(96)})
        columns = {"text": "plot", "number": "year"}
        self.models = {
            "vectors": LaMPClassifier(preset="quick", input_kind="vector").fit(vectors, truth.astype(int)),
            "films": LaMPClassifier(preset="quick", columns=columns).fit(films, truth.astype(int)),
        }
        self.rows: dict[str, Any] = {"vectors": vectors[:4], "films": films[:4]}
        parts = np.array([json.dumps(row) for row in films[:4].to_dict("records")], dtype=object)
        self.inputs = {"vectors": ("features", "FP32", vectors[:4]), "films": ("parts", "BYTES", parts)}
        self.folders = [model.save(folder / name) for name, model in self.models.items()]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    return Kinds(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def service_of_kinds(kinds: Kinds) -> Iterator[Running]:
    with serving(*kinds.folders) as running:
        yield running


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", ["vectors", "films"])
def test_tritons_client_sends_vectors_and_several_parts(
    service_of_kinds: Running, kinds: Kinds, name: str, binary: bool
) -> None:
    library = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
    model, (input_name, datatype, values) = kinds.models[name], kinds.inputs[name]
    with closing(library.InferenceServerClient(service_of_kinds.url.removeprefix("http://"))) as client:
        described = client.get_model_metadata(name)["inputs"][0]
        assert (described["name"], described["datatype"]) == (input_name, datatype)
        rows = library.InferInput(input_name, list(values.shape), datatype)
        rows.set_data_from_numpy(values, binary_data=binary)
        states = np.full((len(values), 3), -1, dtype=np.int8)
        states[0, 0], states[1, 1] = 1, 0
        known = library.InferInput("known", list(states.shape), "INT8")
        known.set_data_from_numpy(states, binary_data=binary)
        for inputs, said in (([rows], None), ([rows, known], np.where(states < 0, np.nan, states))):
            wanted = [library.InferRequestedOutput(one, binary_data=binary) for one in ("labels", "probabilities")]
            result = client.infer(name, inputs, outputs=wanted)
            expected = model.predict_proba(kinds.rows[name], known=said)
            np.testing.assert_allclose(result.as_numpy("probabilities"), expected, atol=1e-6)
            np.testing.assert_array_equal(
                result.as_numpy("labels"), model.predict(kinds.rows[name], known=said).astype(bool)
            )


def test_the_only_version_of_a_model_is_1(service: Running) -> None:
    InferenceServerException = pytest.importorskip("tritonclient.utils").InferenceServerException
    library = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
    with closing(library.InferenceServerClient(service.url.removeprefix("http://"))) as client:
        assert client.get_model_metadata("topics")["versions"] == ["1"]
        assert client.get_model_metadata("topics", model_version="1") == client.get_model_metadata("topics")
        text = library.InferInput("text", [len(TEXTS)], "BYTES")
        text.set_data_from_numpy(np.array(TEXTS, dtype=object))
        plain, versioned = (client.infer("topics", [text], model_version=version) for version in ("", "1"))
        assert versioned.get_response()["model_version"] == "1"
        np.testing.assert_array_equal(versioned.as_numpy("probabilities"), plain.as_numpy("probabilities"))
        assert client.is_model_ready("topics", "1")
        assert not client.is_model_ready("topics", "2")
        with pytest.raises(InferenceServerException, match="no version '2'; its only one is '1'"):
            client.infer("topics", [text], model_version="2")
        with pytest.raises(InferenceServerException, match="no model 'other'"):
            client.get_model_metadata("other", model_version="1")
