"""The process's warning filters, which `warnings.catch_warnings` exchanges for all threads at once.

Two threads inside `catch_warnings` put back each other's filters and leave the wrong ones for good. So whatever may
run in a prediction and exchanges them, our code or scikit-learn's, does so while it holds `WARNING_FILTERS`.
"""

from __future__ import annotations

from lampnet.runtime.forks import ForkSafeLock

WARNING_FILTERS = ForkSafeLock()
