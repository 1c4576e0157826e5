"""A model elsewhere: one predictor class for files and frames, by which Ray, Spark, Dask and MLflow score rows."""
