"""Raw files to `Dataset`: one file per format; `named` holds the registry of named data sets."""
