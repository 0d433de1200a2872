# Each target makes the environment it needs. PYTHON must be 3.11 or newer.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
TEST_JOBS ?= 3
BIN    := $(VENV)/bin
# Tests run side by side, so each computes with one thread: threads that wait for each other took ten times as long.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
LOWEST ?= .venv-lowest

.PHONY: demo path check test long explore test-lowest package coverage mutants fuzz audit dependencies lint docs gallery bench results clean

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "onepos needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

# The demo needs the command line and the pictures, nothing else.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cli,plot]'
	touch $@

$(VENV)/.ready: pyproject.toml studies/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e './studies[dask]'
	touch $@

demo: $(VENV)/.demo  ## a table with one genre per film → doctor → fit → completed genres → review page, in demo-output
	$(BIN)/onepos demo --out demo-output

lint: $(VENV)/.ready  ## style, types, import contract, prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/prose.py

path: $(VENV)/.ready  ## functions, depth and pairs of files on the way to the first gradient, with their goals
	$(BIN)/python benchmarks/files_touched.py

check: lint path  ## lint, types, the way of a fit and the quick tests: for every change, within two minutes
	$(PYTEST) -n $(JOBS) --dist loadfile -m 'not slow and not long' tests studies/tests

# Many tests wait for processes that they started, so three workers keep two cores busy.
test: lint  ## everything that must hold; TEST_JOBS=0 runs it in one process
	$(PYTEST) -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder --durations 40

long: $(VENV)/.ready  ## the tests that the others leave out: tests of tools, limits of time and memory
	$(PYTEST) -m long tests studies/tests

explore: $(VENV)/.ready  ## the property tests with new random examples; the suite repeats the same ones
	$(PYTEST) -n $(JOBS) --dist loadfile -m hypothesis --hypothesis-profile explore tests studies/tests

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt \
	  -e '.[cli,plot,excel,large,onnx,embed,images]' -e './studies[dask]' hypothesis mpmath psutil pytest pytest-xdist skorch
	touch $@

# The dependencies of these tests at the lowest versions that pyproject.toml allows; dask is only installed.
test-lowest: $(LOWEST)/.ready  ## a part of the tests with the lowest allowed versions
	$(LOWEST)/bin/python -m pytest -n $(JOBS) --dist loadfile tests/training/test_losses.py tests/methods/smile tests/table studies/tests/study/tables tests/metrics/test_metrics.py \
	  tests/persistence/test_persistence.py tests/cli/test_tables.py studies/tests/study/test_figures.py tests/persistence/test_onnx.py tests/graph/test_approximate.py \
	  studies/tests/datasets/test_formats.py

package: $(VENV)/.ready  ## build sdist and wheel, install each in an environment of its own and use it
	$(BIN)/python benchmarks/supply_chain/package.py

dependencies: $(VENV)/.ready  ## DEPENDENCIES.md (licences) and sbom.cdx.json from the pins
	$(BIN)/python benchmarks/supply_chain/dependencies.py

audit:  ## known vulnerabilities of the pinned versions; needs pypi.org's vulnerability data
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'
	.venv-audit/bin/pip-audit --no-deps --disable-pip --requirement constraints.txt

coverage: $(VENV)/.ready  ## lines and branches of src that the tests run, processes they start included
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(JOBS) --dist loadfile
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --show-missing --fail-under 95

# Apart from the environment: mutmut 3.8 does not work with pytest 9, which the other tests use.
mutants: $(VENV)/.ready  ## wrong changes of losses and measures: how many do the tests notice; in mutants/
	test -d .mutmut-tools || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target .mutmut-tools 'mutmut==3.8.0' 'pytest==8.4.2'
	OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/.mutmut-tools $(BIN)/python -m mutmut run --max-children $(JOBS)

fuzz: $(VENV)/.ready  ## 10,000 damaged files for every reader
	$(BIN)/python benchmarks/reliability/fuzz.py --cases 10000 --seed 1

docs: $(VENV)/.ready  ## the documentation site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'open site/index.html'

gallery: $(VENV)/.ready  ## run the examples and write their pages and pictures to docs/gallery
	$(BIN)/python examples/gallery.py

bench: $(VENV)/.ready  ## seconds of an epoch
	$(BIN)/python benchmarks/epoch_times.py

results: $(VENV)/.ready  ## every table and figure of the docs, from the committed results files
	$(BIN)/python studies/build.py

clean:
	rm -rf $(VENV) $(LOWEST) .venv-audit build dist site demo-output .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis mutants .mutmut-tools
