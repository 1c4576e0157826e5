"""What `lampnet bench` measures; run from a clone of the repository, never installed."""
