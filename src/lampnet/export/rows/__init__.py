"""The inputs of the graph: rows as a program without lampnet can give them, and what encoders make of them.

What an encoder learned (frequencies, means, categories) is in the graph wherever ONNX has operators for it, so that a
text comes as its tokens, a table as its numbers, a DNA window as its bases. Molecules and pictures come as lampnet's
encoders give them: RDKit and the gradients of a picture cannot be expressed. `feeds` makes these inputs from rows.
"""
