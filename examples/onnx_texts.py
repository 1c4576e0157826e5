"""Tag texts with an exported model; onnxruntime, tokenizers and NumPy are all that it needs.

lampnet export MODEL --onnx model.onnx
python examples/onnx_texts.py model.onnx "wheat exports rose" --known grain
"""

import argparse
import json

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

arguments = argparse.ArgumentParser()
arguments.add_argument("model")
arguments.add_argument("texts", nargs="+")
arguments.add_argument("--known", action="append", default=[], help="a label that all texts are known to have")
given = arguments.parse_args()

session = onnxruntime.InferenceSession(given.model, providers=["CPUExecutionProvider"])
about = session.get_modelmeta().custom_metadata_map
labels, tokenizer = json.loads(about["labels"]), Tokenizer.from_str(about["tokenizer"])
ids = [encoding.ids for encoding in tokenizer.encode_batch(given.texts)]
tokens = np.full((len(ids), max(map(len, ids))), -1, dtype=np.int64)
for row, numbers in enumerate(ids):
    tokens[row, : len(numbers)] = numbers
known = np.array([[label in given.known for label in labels]], dtype=np.int8)
rows = session.run(["probabilities"], {"tokens": tokens, "known": known})[0]
for text, probabilities in zip(given.texts, rows, strict=True):
    best = np.argsort(-probabilities)[:5]
    print(json.dumps({"text": text, "labels": {labels[j]: round(float(probabilities[j]), 4) for j in best}}))
