# Everything here sets itself up in .venv; only Python (3.11 or newer) must be there.
#
#   make test     what CI runs: ruff, mypy, generated files, tests
#   make demo     trains a small net on handwritten digits and shows its backward pass
#   make soak     the long forms
#   make setup    just the environment;  make clean  removes it

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,\
	$(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)))
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PROTOC := $(VENV)/protoc
ORACLE ?= $(wildcard ../shared/oracle)

.PHONY: test demo soak setup lint types protos unit oracle clean

test: lint types protos unit

lint: $(VENV)/.dev
	$(BIN)/ruff check

types: $(VENV)/.dev
	$(BIN)/mypy

protos: $(PROTOC)/.installed
	@if $(PROTOC)/bin/python -c 'import grpc_tools' 2>/dev/null; then $(PROTOC)/bin/python tools/regenerate_protos.py --check; \
	else echo "protos: there is no grpcio-tools 1.60.1 for this Python, so that the generated files were not compared"; fi

unit: $(VENV)/.dev
	$(BIN)/python -m pytest

demo: $(VENV)/.demo
	$(BIN)/netgrad demo

soak: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak --timeout 3600
	$(MAKE) oracle NETS="0 3000"

# What Caffe2 answered, where the record of it lies beside the checkout.
NETS ?= 0 600
oracle: $(VENV)/.dev
ifeq ($(ORACLE),)
	@echo "no record of Caffe2's answers in ../shared/oracle: nothing to compare"
else
	$(BIN)/python -W ignore $(ORACLE)/check_gradients
	$(BIN)/python -W ignore $(ORACLE)/check_makers
	$(BIN)/python -W ignore $(ORACLE)/check_random_nets --backend numpy $(NETS)
	$(BIN)/python -W ignore $(ORACLE)/check_random_nets --backend torch $(NETS)
	$(BIN)/python -W ignore $(ORACLE)/check_random_nets --backend numpy --save $(NETS)
endif

setup: $(VENV)/.dev

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "netgrad needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --constraint constraints.txt --editable '.[torch,dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --constraint constraints.txt --editable '.[demo]'
	@touch $@

# The protobuf modules are made with an old protoc, whose protobuf is not the one that we run on.
$(PROTOC)/.installed: tools/regenerate_protos.py | $(BIN)/python
	$(BIN)/python -m venv $(PROTOC)
	-$(PROTOC)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: grpcio-tools==1.60.1
	@touch $@

clean:
	rm -rf $(VENV)
