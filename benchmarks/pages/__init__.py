"""The pages of docs/ that are written from measured files; run from a clone of the repository, never installed."""
