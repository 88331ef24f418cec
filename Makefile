# The two commands: `make demo` (recaudit alone) and `make test` (with recaudit-papers). Both set up what they need in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
BIN := .venv/bin

.PHONY: demo test test-browser types-js lint contracts test-ray lenskit coverage properties hard kills reference release-check docs notebooks study-pages format bench clean

demo: .venv/demo.stamp
	$(BIN)/recaudit demo --out runs/demo

test: lint
	$(BIN)/python -m pytest -n auto -m "not cluster"

# The pages that compute, in the Chromium of this machine (or RECAUDIT_BROWSER). `make test` runs these too, and says so where there is no browser.
test-browser: .venv/test.stamp
	$(BIN)/python -m pytest -m browser

# The types of the explorer's JavaScript, by TypeScript: needs npm.
types-js:
	npx --yes --package typescript@5.9.3 tsc --project src/recaudit/explore/scripts/jsconfig.json

# What every part must do, computed by the instructions of other processors.
contracts: .venv/test.stamp
	OPENBLAS_CORETYPE=Nehalem MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n auto -m "contract and not cluster"
	OPENBLAS_CORETYPE=Haswell MKL_CBWR=AVX2 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "contract and not cluster"

# A Ray cluster of two nodes on this machine: workers, nodes and drivers that are killed. Some minutes.
test-ray: .venv/ray.stamp
	$(BIN)/python -m pytest -m cluster

# Models of LensKit, which needs pandas 2: in an environment of its own. `make test` skips these tests.
lenskit: .venv-lenskit/test.stamp
	.venv-lenskit/bin/python -m pytest tests/models/adapters/test_lenskit.py tests/documentation/test_code_on_pages.py -k "lenskit or your-own-model"

# Which lines no test runs.
coverage: .venv/test.stamp
	$(BIN)/python -m pytest -n auto -m "not cluster" --cov=recaudit --cov=recaudit_papers --cov-report=term:skip-covered --cov-report=html:runs/coverage

# Property tests on new cases: `make test` draws the same ones each time.
SEEDS ?= 1 2 3 4 5 6 7 8 9 10
properties: .venv/test.stamp
	for seed in $(SEEDS); do $(BIN)/python -m pytest -n auto -m hypothesis --hypothesis-profile=fresh --hypothesis-seed=$$seed || exit 1; done

# Hostile input, some minutes each: certificates against 80-bit arithmetic, fuzzed arguments and files, damaged run
# folders, and run folders that somebody made to do harm (these take some 20 minutes of two cores).
hard: .venv/test.stamp
	$(BIN)/python scripts/hard_instances.py
	$(BIN)/python scripts/fuzz.py
	$(BIN)/python scripts/damage_runs.py
	$(BIN)/python scripts/kill_runs.py
	$(BIN)/python scripts/hostile_folders.py

# Runs that are killed at random moments and resumed; 100 kills of the main process with each executor, and of a worker.
KILLS ?= 100
kills: .venv/test.stamp
	$(BIN)/python scripts/kill_runs.py --kills $(KILLS)

# The pages of docs/reference that follow from the classes: commands, configuration, metrics.
reference: .venv/test.stamp
	$(BIN)/python scripts/reference.py

# Is the last commit fit to be released? Builds and installs it elsewhere, and audits with it: some minutes.
release-check: .venv/test.stamp
	$(BIN)/python scripts/release_check.py $(if $(TAG),--tag $(TAG))

# The notebooks of docs/notebooks with their outputs, in runs/notebooks. A minute.
notebooks: runs/notebooks.stamp

# The site, in site/: needs no network once the packages are there. Made of docs/, the demo's run and the notebooks' outputs.
docs: .venv/docs.stamp runs/demo/manifest.json runs/notebooks.stamp
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=scripts $(BIN)/python -m mkdocs build

runs/demo/manifest.json: src/recaudit/version.py | .venv/demo.stamp
	$(BIN)/recaudit demo --out runs/demo

runs/notebooks.stamp: $(wildcard docs/notebooks/*.ipynb) scripts/notebooks.py | .venv/docs.stamp
	$(BIN)/python scripts/notebooks.py runs/notebooks
	touch $@

# The papers' studies at the papers' sizes, in runs/studies: hours of one core. Resumes where it was stopped.
STUDIES ?= calibration folding reachability agency reclab
WORKERS ?= 2
study-pages: .venv/test.stamp
	for study in $(STUDIES); do \
		$(BIN)/recaudit study $$study --size paper --workers $(WORKERS) --out runs/studies/$$study || exit 1; \
	done

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/bench.stamp
	for script in models reachability agency agency_future folding folding_metric calibration compare error_rates estimates engines ray_load lists futures; do $(BIN)/python benchmarks/$$script.py || exit 1; done
	for script in bayes neural simulation; do $(BIN)/python papers/benchmarks/$$script.py || exit 1; done

# What can be installed or built again. Runs may have taken hours: remove them yourself by `rm -r runs`.
clean:
	rm -rf .venv .venv-lenskit site

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/demo.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/test.stamp: $(BIN)/python pyproject.toml papers/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]' -e papers
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lightfm]' >/dev/null 2>&1 || echo "LightFM was not built (it needs a C compiler): its tests are skipped."
	touch $@ .venv/demo.stamp

.venv/docs.stamp: $(BIN)/python pyproject.toml papers/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]' -e papers
	touch $@ .venv/demo.stamp

.venv/ray.stamp: .venv/test.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,ray]' -e papers
	touch $@

.venv/bench.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,bench,ray]' -e 'papers[bench]'
	touch $@ .venv/ray.stamp .venv/test.stamp .venv/demo.stamp

.venv-lenskit/test.stamp: pyproject.toml constraints-lenskit.txt
	$(PYTHON) -m venv .venv-lenskit
	.venv-lenskit/bin/pip install --quiet --disable-pip-version-check -c constraints-lenskit.txt -e '.[lenskit]' pytest hypothesis
	touch $@
