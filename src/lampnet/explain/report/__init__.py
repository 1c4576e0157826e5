"""Explanations to look at: pictures in the paper's layout and self-contained pages."""
