# The commands of the course. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help lab test export run figures screenshots workbook bench

help:  ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

lab: $(READY)  ## set up once, then open the first chapter in JupyterLab
	$(BIN)/jupyter lab --ServerApp.root_dir=. notebooks/00_start_here.ipynb

test: $(READY)  ## set up once, then run everything that CI runs
	$(BIN)/python tools/run_tests.py

export: $(READY)  ## write course_lib from the chapters' export cells
	$(BIN)/python tools/chapters.py export

run: $(READY)  ## execute and save all chapters (or: make run CHAPTERS=notebooks/01_attention.ipynb)
	OMP_NUM_THREADS=1 $(BIN)/python tools/chapters.py run $(CHAPTERS)

figures: $(READY)  ## draw figures/*.svg anew
	$(BIN)/python figures/src/draw_all.py

screenshots: $(READY)  ## take the README's screenshots anew (wants Chromium)
	KEEP_SCREENSHOTS=1 $(BIN)/python -m pytest -q tests/browser/test_widgets.py

workbook: $(READY)  ## write the learner's edition into workbook/ (again: make workbook OPTIONS=--force)
	$(BIN)/course workbook workbook $(OPTIONS)

bench: $(READY)  ## measure on this machine, draw figures/bench.svg (some parts: make bench PARTS="training gpt")
	$(BIN)/python benchmarks/bench.py $(PARTS)

$(READY): requirements.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; \
	  sys.exit(sys.version_info < (3, 11) and f"The course needs Python 3.11 or newer, this is {v}; try: make lab PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
ifdef TORCH_INDEX
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' requirements.txt)" --index-url $(TORCH_INDEX)
endif
	$(BIN)/python -m pip install --quiet -r requirements.txt
	@touch $@
