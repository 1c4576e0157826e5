"""The Open Inference Protocol, spoken by Triton's own client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from running_service import Running

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
