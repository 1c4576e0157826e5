"""Models of other kinds of rows behind the service."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from running_service import Running, serving
from scipy import sparse

from lampnet import LaMPClassifier

DRAW = np.random.default_rng(0)
N = 24
TRUTH = DRAW.random((N, 3)) < 0.4


def peak_memory(running: Running) -> int:
    """Bytes that the service has taken at most."""
    return 1024 * int(Path(f"/proc/{running.process.pid}/status").read_text().split("VmHWM:")[1].split()[0])


def test_numbers_words_and_tables_in_one_service(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    vectors = DRAW.normal(size=(N, 5)) + TRUTH[:, :1]
    words = sparse.csr_matrix((DRAW.random((N, 6)) < 0.5).astype(float))
    table = pandas.DataFrame({"size": vectors[:, 0], "colour": np.where(TRUTH[:, 1], "red", "blue")})
    made = {
        "vectors": (LaMPClassifier(preset="quick", input_kind="vector"), vectors),
        "words": (LaMPClassifier(preset="quick"), words),
        "table": (LaMPClassifier(preset="quick"), table),
    }
    models = {name: model.fit(X, TRUTH.astype(int)) for name, (model, X) in made.items()}
    rows = {
        "vectors": [{"features": row.tolist()} for row in vectors],
        "words": [{"features": {str(j): 1.0 for j in words[i].indices}} for i in range(N)],
        "table": [{"size": float(size), "colour": colour} for size, colour in table.to_numpy()],
    }
    with serving(*(model.save(tmp_path / name) for name, model in models.items())) as running:
        for name, model in models.items():
            if name == "words":  # its columns have no names that a row could say
                continue
            found = running.predictions(rows[name], model=name)
            expected = [[str(label) for label in labels] for labels in model.predict_labels(made[name][1])]
            assert [one["labels"] for one in found] == expected, name
        missing = running.predictions([{"colour": "red"}, {"size": None, "colour": "red"}], model="table")
        assert missing[0]["scores"] == missing[1]["scores"]
        as_text = [{"size": f" {row['size']!r}0"} | {"colour": row["colour"]} for row in rows["table"]]  # as in CSV
        assert running.predictions(as_text, model="table") == running.predictions(rows["table"], model="table")
        assert running.predictions([{"size": "", "colour": "red"}], model="table")[0]["scores"] == missing[0]["scores"]
        for row in ({"size": [1]}, {"size": 10**400}, {"size": "wide", "colour": "red"}, {"weight": 1}):
            assert running.post("/predict", {"rows": [row], "model": "table"}).status_code == 400
        # A cell for each of these columns in each of these rows would take gigabytes.
        many = [{"size": 1.0, "colour": "red"} | {f"{i}x{j}": 1 for j in range(100)} for i in range(1000)]
        found = running.predictions(many, model="table")
        assert found[0]["scores"] == running.predictions([{"size": 1.0, "colour": "red"}], model="table")[0]["scores"]
        assert peak_memory(running) < 10**9


def test_rows_of_several_parts_also_by_the_open_inference_protocol(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "plot": [" and ".join(np.array(["a", "war", "song"])[row]) or "none" for row in TRUTH],
            "year": 1950.0 + np.arange(N),
            "country": np.where(TRUTH[:, 1], "Peru", "Chad"),
        }
    )
    columns = {"text": "plot", "number": "year", "category": "country"}
    model = LaMPClassifier(preset="quick", columns=columns).fit(frame, TRUTH.astype(int))
    rows = frame[:5].to_dict("records")
    with serving(model.save(tmp_path / "films")) as running:
        found = running.predictions(rows)
        assert [one["labels"] for one in found] == [
            [str(name) for name in row] for row in model.predict_labels(frame[:5])
        ]
        sent = {"name": "parts", "shape": [5], "datatype": "BYTES", "data": [json.dumps(row) for row in rows]}
        answer = running.post("/v2/models/films/infer", {"inputs": [sent], "outputs": [{"name": "probabilities"}]})
        assert answer.status_code == 200, answer.text
        (tensor,) = answer.json()["outputs"]
        proba = np.reshape(tensor["data"], tensor["shape"])
        np.testing.assert_allclose(proba, model.predict_proba(frame[:5]), atol=1e-6)
        refused = running.post("/v2/models/films/infer", {"inputs": [sent | {"shape": [1], "data": ["a war"]}]})
        assert refused.status_code == 400
        assert "a row of 'parts' is not a JSON object" in refused.json()["error"]


def test_pictures_come_as_base64_and_never_as_paths(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = [DRAW.integers(0, 255, size=(16, 16, 3), dtype=np.uint8) for _ in range(N)]
    model = LaMPClassifier(preset="quick").fit(pictures, TRUTH.astype(int))
    buffer = io.BytesIO()
    image.fromarray(pictures[0]).save(buffer, "PNG")
    text = base64.b64encode(buffer.getvalue()).decode()
    image.fromarray(pictures[0]).save(tmp_path / "a.png")
    with serving(model.save(tmp_path / "pictures")) as running:
        plain, url = running.predictions([{"image": text}, {"image": "data:image/png;base64," + text}])
        assert plain["scores"] == url["scores"]
        assert plain["labels"] == [str(label) for label in model.predict_labels(pictures[:1])[0]]
        for path in (str(tmp_path / "a.png"), "a.png"):
            refused = running.post("/predict", {"rows": [{"image": path}]})
            assert refused.status_code == 400
            assert "not its path" in refused.json()["error"] or "cannot be read" in refused.json()["error"]
        flat = io.BytesIO()
        image.new("1", (2500, 2500)).save(flat, "PNG")  # a kilobyte that stands for six million pixels
        refused = running.post("/predict", {"rows": [{"image": base64.b64encode(flat.getvalue()).decode()}] * 100})
        assert refused.status_code == 400
        assert "row 10: its picture has 2,500 x 2,500 pixels" in refused.json()["error"]
        assert peak_memory(running) < 10**9
