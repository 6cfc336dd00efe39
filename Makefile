# The front door. `make demo` and `make test` need nothing but a bare Debian or Ubuntu machine.
JOBS ?= $(shell nproc)
SOURCES = find src tests \( -name '*.cc' -o -name '*.h' \) -not -path '*/testdata/*'
CLANG_FORMAT ?= clang-format-14
# Compiled programs stay inside the tree.
export STRATA_CACHE ?= $(CURDIR)/.deps/cache

.PHONY: setup setup-dev configure build tests test demo bench format format-check clean

setup:
	@tools/setup.sh

setup-dev:
	@tools/setup.sh --dev

configure: setup
	@cmake --preset release --log-level=WARNING >/dev/null

# The binary alone: build/bin/strata.
build: configure
	@cmake --build build -j $(JOBS) --target strata

tests: configure
	@cmake --build build -j $(JOBS)

# Every test but those labelled slow.
test: tests
	@ctest --test-dir build -j $(JOBS) -LE slow --output-on-failure

# The main job on a real model, below runs/demo.
demo: build
	@tools/demo.sh

# Benchmarks (bench/README.md); their figures need a quiet machine.
bench: setup-dev
	@cmake --preset release -DSTRATA_BENCH=ON --log-level=WARNING >/dev/null
	@cmake --build build -j $(JOBS) --target bench

format: setup-dev
	@$(SOURCES) -print0 | xargs -0 $(CLANG_FORMAT) -i

format-check: setup-dev
	@$(SOURCES) -print0 | xargs -0 $(CLANG_FORMAT) --dry-run --Werror

clean:
	@rm -rf build build-clang build-asan build-tsan build-dev build-fuzz
