# SPDX-License-Identifier: Apache-2.0
# Thin front of meson: what is built, and how, is said in meson.build alone.
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON = /usr/bin/python3
SOURCES = $(shell find src tests -name '*.[ch]')
CHECK ?=

.PHONY: all
all: ## build build/bawn and its helpers (gcc, static)
	@CC=gcc tools/configure build
	@ninja -C build

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.* ## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r t d; do printf '  make %-9s %s\n' "$$t" "$$d"; done

.PHONY: try
try: ## install what is missing, build, and watch a first sandbox keep its promises
	@tools/setup --build
	@$(MAKE) --no-print-directory all
	@tools/try build/bawn

.PHONY: check
check: ## every test there is; what CI runs (CHECK="unit attack": only these stages)
	@tools/setup --check
	@$(PYTHON) tools/check $(CHECK)

.PHONY: bench
bench: ## measure Bawn against its peers
	@tools/setup --bench
	@$(MAKE) --no-print-directory all
	@bench/setup
	@bench/run $(BENCH)

.PHONY: install
install: all ## install below PREFIX (default /usr/local), staged in DESTDIR
	@meson configure build -Dprefix=$(PREFIX)
	@ninja -C build
	@DESTDIR=$(abspath $(DESTDIR)) meson install -C build --no-rebuild --quiet
	@DESTDIR=$(abspath $(DESTDIR)) tools/apparmor $(PREFIX)/bin/bawn

.PHONY: clang
clang: ## build with clang, warnings are errors, into build-clang/
	@CC=clang tools/configure build-clang --werror -Dstatic=false
	@ninja -C build-clang all meson-test-prereq

.PHONY: asan
asan: ## build with AddressSanitizer, UBSan and the fuzzers, into build-asan/
	@CC=clang tools/configure build-asan --werror -Db_sanitize=address,undefined -Db_lundef=false -Dbuildtype=debug \
		-Dc_args='-O1 -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=fuzzer-no-link'
	@ninja -C build-asan all fuzzers meson-test-prereq

.PHONY: layers
layers: ## check who includes whom, and the size of files and functions
	@$(PYTHON) tools/layers

.PHONY: format
format: ## format every C file in place
	@clang-format -i $(SOURCES)

.PHONY: tidy
tidy: clang ## clang-tidy over src
	@run-clang-tidy -quiet -p build-clang '/src/.*\.c$$'

.PHONY: clean
clean: ## remove what was built
	rm -rf build build-check build-clang build-asan
