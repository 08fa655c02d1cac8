# Every target makes .venv itself and installs what it needs.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin

.PHONY: demo test test-coverage test-full pythons lint docs bench ladder paper paper-quick paper-draw coverage tradeoff predict divergences residuals rivals printed small trust mutants verdicts calibration identify identify-rivals audit clean

.venv/demo.done: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[plot,report]'
	touch $@

.venv/test.done: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,docs]'
	touch $@

# An environment of its own: CellRank pins a jinja2 with which the documentation cannot be built.
.venv-full/done: pyproject.toml
	test -x .venv-full/bin/python || $(PYTHON) -m venv .venv-full
	.venv-full/bin/python -m pip install -q --disable-pip-version-check \
		-e '.[test,all,tensorboard,mlflow,wandb]'
	touch $@

demo: .venv/demo.done
	$(BIN)/stitchflow demo --out stitchflow-demo

lint: .venv/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: .venv/test.done
	$(BIN)/mkdocs build --strict --quiet

# Two workers share two cores: matrix products take one each, or both wait for each other.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# Both workers get the longest files first (tests/conftest.py), so that neither waits at the end.
test: .venv/test.done
	$(MAKE) --no-print-directory -j2 lint docs
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-coverage: .venv/test.done
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term:skip-covered

test-full: test .venv-full/done pythons
	$(ONE_THREAD) .venv-full/bin/python -m pytest -m full -n 2 --dist loadfile

# A fresh environment for every Python there is, and one with the versions before the newest.
pythons: .venv/test.done
	$(BIN)/python tests/pythons.py

bench: .venv/test.done
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/costs.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/performance.py

# One script a study; each adds what is missing to its file in results/.
calibration coverage divergences identify ladder mutants predict printed residuals rivals small tradeoff trust verdicts: .venv/test.done
	$(BIN)/python benchmarks/$@.py

identify-rivals: .venv/test.done
	$(BIN)/python benchmarks/identify.py --rivals

# Known holes of what is installed; asks the index, so it is no test.
audit: .venv/test.done
	$(BIN)/python -m pip install -q --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --skip-editable

paper: .venv/test.done
	$(BIN)/python benchmarks/make_paper.py
	$(BIN)/python benchmarks/readme_table.py

paper-quick: .venv/test.done
	$(BIN)/python benchmarks/make_paper.py --quick

paper-draw: .venv/test.done
	$(BIN)/python benchmarks/make_paper.py --draw
	$(BIN)/python benchmarks/readme_table.py

clean:
	rm -rf .venv .venv-full build stitchflow-demo
