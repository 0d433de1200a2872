# Each target makes the environment it needs. PYTHON must be 3.11 or newer.
PYTHON ?= python3
VENV   ?= .venv
BENCH  ?= --only all
JOBS   ?= 2
BIN    := $(VENV)/bin

.PHONY: demo test lint docs gallery bench results table clean

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "onepos needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/.ready  ## train on digit scenes, compare, write demo-output/report.html
	$(BIN)/onepos demo --out demo-output

lint: $(VENV)/.ready  ## style, types, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## everything that must hold; JOBS=0 runs it in one process
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations 40

docs: $(VENV)/.ready  ## the documentation site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'open site/index.html'

gallery: $(VENV)/.ready  ## run the examples and write their pages and pictures to docs/gallery
	$(BIN)/python examples/gallery.py

bench: $(VENV)/.ready  ## timings as ratios; BENCH='--only encoder,memory' for parts, which keep the rest
	$(BIN)/python benchmarks/run.py $(BENCH)

results: $(VENV)/.ready  ## every table and figure of README and docs, from the committed results files
	$(BIN)/python studies/build.py

table: $(VENV)/.ready  ## the seven-set table; resumes where it stopped
	$(BIN)/python studies/seven_sets/run.py
	$(BIN)/python studies/seven_sets/table.py

clean:
	rm -rf $(VENV) build dist site demo-output .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
