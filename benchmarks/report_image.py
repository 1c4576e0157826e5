"""The README's picture of the report: `python benchmarks/report_image.py` writes `docs/images/report.png`.

Trains on digit scenes, takes the test row in which label messages lifted a true label most, and photographs
the page with chromium (set CHROMIUM to its path where it is not found).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import sync_playwright

from gallery import ROOT, SEED, trained
from lampnet.explain.explain_rows import explain
from lampnet.explain.faithfulness import measure
from lampnet.explain.report.page import write_report
from lampnet.explain.report.whole_set import summarise
from lampnet.readers.named.registry import load

WIDTH, HEIGHT = 1120, 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="keep the trained model here and use it again")
    given = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium was found; install one or set CHROMIUM to its path")
    torch.set_num_threads(1)
    splits = load("digits", None, SEED)
    assert splits.test is not None
    model = trained("digits", splits, given.models)
    lifted = [c for c in summarise(model, splits.test).changes if c.right and c.after > c.before]
    row, label = (lifted[0].row, lifted[0].label) if lifted else (0, 0)
    explanations = explain(model, splits.test, [row, *(i for i in range(12) if i != row)])
    checks = measure(model, splits.test, seed=SEED, most_rows=60)
    out = ROOT / "docs" / "images" / "report.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        page_file = write_report(Path(folder) / "report.html", explanations, faithfulness=checks)
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(page_file.as_uri())
        place = explanations[0].labels.index(model.label_names[label])
        page.locator(f'#stages [data-pick="{place}"]').click()
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(2, 2)
        page.wait_for_function("document.getElementById('tip').hidden")
        bottom = page.evaluate("document.querySelector('.two').getBoundingClientRect().bottom + scrollY")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": bottom + 16}
        page.screenshot(path=str(out), animations="disabled", full_page=True, clip=clip)
        browser.close()
    with Image.open(out) as whole:  # few colours, so a palette halves the file without a visible change
        whole.convert("RGB").quantize(224, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
