"""The animated picture of the tagging page: `python benchmarks/tagging_image.py` writes docs/images/tagging.gif.

A model of the preset `quick` is trained on Reuters texts and served; Chromium tags a test row by the keyboard.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "docs" / "images" / "tagging.gif"
ROWS, SIZE, COLOURS = 3000, {"width": 1100, "height": 600}, 64
#: a key, and how long its result is shown, in ms
KEYS = (("", 1800), ("1", 1600), ("1", 1600), ("1", 1600), ("Shift+Digit1", 1600), ("Enter", 2400))


def train(folder: Path) -> tuple[Path, list[str]]:
    """The model's folder, and texts that it was not trained on."""
    from lampnet import LaMPClassifier
    from lampnet.experiments.material import open_material

    material = open_material("reuters21578")
    data, test = material.labelled.train, material.part("test")
    sets = [[data.label_names[j] for j in row.indices] for row in data.labels[:ROWS]]
    model = LaMPClassifier(preset="quick").fit(list(data.rows[:ROWS]), sets).save(folder / "reuters")
    several = [row for row in range(len(test)) if test.labels[row].nnz >= 4 and len(test.rows[row]) < 900]
    return model, [" ".join(test.rows[row].split()) for row in several[:3]]


def frames(url: str, texts: list[str]) -> list[tuple[bytes, int]]:
    """Screenshots as PNG, each with the time that it is shown."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    shots = []
    with sync_playwright() as started:
        page = started.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"]).new_page(
            viewport=SIZE
        )
        page.goto(url)
        page.wait_for_selector("#model:has-text('labels')")
        page.fill("#paste", "\n".join(texts))
        page.click("#take")
        for key, shown in KEYS:
            if key:
                page.keyboard.press(key)
            page.wait_for_selector("#labels li")
            page.wait_for_selector("#labels-box:not([aria-busy])")
            shots.append((page.screenshot(), shown))
    return shots


def animated(shots: list[tuple[bytes, int]]) -> bytes:
    from PIL import Image

    pictures: list[Any] = [Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS) for shot, _ in shots]
    made = io.BytesIO()
    times = [shown for _, shown in shots]
    pictures[0].save(made, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True)
    return made.getvalue()


def main() -> None:
    from serving import serving

    with tempfile.TemporaryDirectory() as made:
        _, texts = train(Path(made))
        with serving("lampnet", Path(made)) as url:
            OUT.write_bytes(animated(frames(url, texts)))


if __name__ == "__main__":
    main()
