# make demo   train on the embedded pictures and texts, print the scores, write a report, say how to tag by hand
# make test   everything that guards the project
PYTHON ?= python3
BIN := .venv/bin
DEMO := demo

.PHONY: install demo test lint test-scoring test-faults reliability pages docs tutorials tagging-page clean

install: .venv/installed

# The lock file pins every dependency; the package itself is installed from this folder.
.venv/installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: install
	$(BIN)/lampnet train digits --out $(DEMO)/model --overwrite --set training.epochs=12 --time-budget 90s
	$(BIN)/lampnet evaluate $(DEMO)/model digits
	$(BIN)/lampnet explain $(DEMO)/model digits --out $(DEMO)/report
	$(BIN)/python examples/tag_texts.py $(DEMO)
	@echo
	@echo "Pictures: the model is in $(DEMO)/model, the report in $(DEMO)/report/report.html."
	@echo "Texts: the model is in $(DEMO)/emotions-model. Tag comments by hand:"
	@echo "  1. run   $(BIN)/lampnet serve $(DEMO)/emotions-model"
	@echo "  2. open  http://127.0.0.1:8000 in a browser, and in the page the file $(DEMO)/comments.csv"
	@echo "  3. press 1 to accept the first label, Shift+1 to refuse it, Enter for the next row, ? for all keys"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One process per core, one thread each: two threads of one test only wait for each other on small networks.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not faults" -n auto --dist loadfile

# Ray, Dask, Spark (which needs Java) and MLflow, which are too large for every run of the tests.
test-scoring: .venv/scoring
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit/scoring

.venv/scoring: .venv/installed requirements-scoring.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-scoring.lock
	touch $@

# Kills processes, fills disks, fuzzes files: slower, and kept apart.
test-faults: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults -m "faults and not long"

# The figures of docs/reliability.md: all fault tests, the long ones too (hours), and the streaming benchmark.
reliability: install
	rm -f docs/measurements/reliability.json
	OMP_NUM_THREADS=1 LAMPNET_RECORD=docs/measurements/reliability.json $(BIN)/python -m pytest tests/faults -m faults
	$(BIN)/python benchmarks/streaming.py --out docs/measurements/streaming.json
	$(BIN)/python benchmarks/reliability_page.py

# The tables of scores, from the files in results/.
pages: install
	$(BIN)/lampnet reproduce --page-only --quiet
	$(BIN)/python benchmarks/ablations.py --page-only
	$(BIN)/python benchmarks/readme_scores.py

# The manual as a site in build/site; a warning, such as a broken link, is an error. It needs an environment of its own.
docs: .venv-docs/installed
	PYTHONPATH=benchmarks .venv-docs/bin/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

.venv-docs/installed: requirements-docs.lock
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	touch $@

# The output of the tutorials' code, written into them.
tutorials: install
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/tutorials.py

# The script of the tagging page, from TypeScript; its result is committed, so that installing needs no Node.
tagging-page:
	cd web && npm ci --no-audit --no-fund && npx tsc --project .

clean:
	rm -rf .venv .venv-docs build dist $(DEMO) src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
