"""A class that inherits from scikit-learn's classifiers, without importing scikit-learn before it is needed.

Importing scikit-learn takes as long as a hundred predictions with a loaded model, which need nothing of it.
"""

from __future__ import annotations

import sys
from typing import Any, Self


class SklearnClassifier:
    """Gives way to scikit-learn's `ClassifierMixin` and `BaseEstimator` as soon as anybody can tell the difference.

    That is when an instance is made and scikit-learn is there already, or one is asked for what those classes have.

    >>> class Classifier(SklearnClassifier):
    ...     def __init__(self, *, width=8):
    ...         super().__init__()
    ...         self.width = width
    >>> Classifier(width=4).set_params(width=16)
    Classifier(width=16)
    >>> [base.__name__ for base in Classifier.__bases__]
    ['ClassifierMixin', 'BaseEstimator']
    """

    def __init__(self) -> None:
        if "sklearn.base" in sys.modules:
            self._inherit()

    @classmethod
    def _inherit(cls) -> None:
        from sklearn.base import BaseEstimator, ClassifierMixin

        for own in cls.__mro__:
            if SklearnClassifier in own.__bases__:
                own.__bases__ = (ClassifierMixin, BaseEstimator)
                own.__init_subclass__()  # reads the methods' parameters, for metadata routing

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters."""
        self._inherit()
        found: dict[str, Any] = self.get_params(deep)
        return found

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's parameters."""
        self._inherit()
        return self.set_params(**params)

    def __repr__(self) -> str:
        self._inherit()
        return repr(self)

    def __sklearn_tags__(self) -> Any:
        self._inherit()
        return self.__sklearn_tags__()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and "sklearn.base" in sys.modules and SklearnClassifier in type(self).__mro__:
            self._inherit()
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
