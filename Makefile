# Sandglass. `make run` starts a server, `make test` tests everything; both install what is missing.
# V=asan|ubsan|cov builds into its own directory with that instrumentation.

V      ?=
CC     ?= gcc
OUT    := build$(if $(V),/$(V))
PKGS   := sqlite3 libssl libcrypto
REV    := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

WARN   := -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wswitch-enum -Wmissing-prototypes -Wno-missing-field-initializers
CFLAGS := -std=gnu17 -O2 -g -fno-omit-frame-pointer $(WARN) $(if $(CI),-Werror) -Isrc -D_GNU_SOURCE \
          -DSANDGLASS_VERSION='"0.1.0"' -MMD -MP
LIBS   := -lm -lhttp_parser $(shell pkg-config --libs $(PKGS) 2>/dev/null)

SAN_asan  := -fsanitize=address,undefined -fno-sanitize-recover=undefined -O1
SAN_ubsan := -fsanitize=undefined -fno-sanitize-recover=undefined -O1
SAN_cov   := --coverage -O0
SAN    := $(SAN_$(V))

# The program: every layer but init. Init: static, so that it needs nothing of the box's image.
SRC      := $(filter-out src/init/%,$(sort $(wildcard src/*/*.c)))
INIT_SRC := $(sort $(wildcard src/init/*.c src/tool/*.c src/isolate/*.c src/base/*.c src/wire/*.c))
OBJ      := $(SRC:%.c=$(OUT)/%.o)
INIT_OBJ := $(INIT_SRC:%.c=$(OUT)/box/%.o)

# Only those who tell the revision are compiled anew when it changes: the file is named after it, and new with it.
REV_OBJ  := $(foreach o,src/cli/version src/session/node src/session/link src/surface/own box/src/init/link,$(OUT)/$(o).o)
$(REV_OBJ): CFLAGS += -DSANDGLASS_REV='"$(REV)"'

all: $(OUT)/sandglass $(OUT)/sandglass-init $(OUT)/knowlyr-sandbox

$(OUT)/sandglass: $(OBJ)
	$(CC) $(SAN) -o $@ $^ $(LIBS)
# The same program by another name has another command line.
$(OUT)/knowlyr-sandbox: $(OUT)/sandglass
	ln -sf sandglass $@
$(OUT)/sandglass-init: $(INIT_OBJ)
	$(CC) -static -Wl,--gc-sections -Wl,-z,noseparate-code,-z,max-page-size=0x200000 -o $@ $^ -lm -lz
$(OUT)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SAN) -c -o $@ $<
$(REV_OBJ): $(OUT)/rev-$(REV)
$(OUT)/rev-%:
	@mkdir -p $(@D) && rm -f $(OUT)/rev-* && touch $@
$(OUT)/box/src/tool/convert.o: src/tool/convert.py
$(OUT)/box/src/tool/skills.o: src/tool/skills.py
$(OUT)/box/src/tool/proxy.o: src/tool/proxy.py
$(OUT)/box/src/tool/desktop_look.o: src/tool/atspi.py
$(OUT)/box/src/tool/desktop_evaluate.o: src/tool/evaluate.py
$(OUT)/box/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -DIN_BOX -ffunction-sections -fdata-sections -c -o $@ $<

$(addprefix $(OUT)/box/src/init/,script.o browser.o browser_view.o): $(wildcard src/init/script/*)

# Unit tests: tests/unit/test_<noun>.c, one program, always with sanitizers.
UNIT_SRC := $(sort $(wildcard tests/unit/*.c))
UNIT_OBJ := $(UNIT_SRC:%.c=build/asan/%.o)
build/asan/tests/unit/%.o: CFLAGS += -Itests/unit
build/asan/unit: $(UNIT_OBJ) $(filter-out %/cli/main.o,$(SRC:%.c=build/asan/%.o))
	$(CC) $(SAN_asan) -o $@ $^ $(LIBS)

# Parts of pages that others wrote: pinned in web/*/package-lock.json, put into the program. Without npm, the page says so.
WEB := build/web/xterm.js build/web/xterm.css build/web/addon-fit.js build/web/addon-unicode11.js build/web/novnc.tar
$(OUT)/src/surface/web_files.o: $(WEB) $(wildcard web/*/*.html web/*/*.js)
$(WEB) &: web/terminal/package-lock.json web/vnc/package-lock.json
	@tools/web.sh

deps:
	@tools/deps.sh
# VS Code for boxes: large, and nobody needs it to build or to test.
code-server:
	@tools/code_server.sh
# JupyterLab for boxes, instead of Debian's notebook.
jupyterlab:
	@tools/jupyterlab.sh
run: deps
	@echo "building (half a minute to a few, the first time)"
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@tools/run.sh
unit:
	@$(MAKE) --no-print-directory V=asan build/asan/unit && build/asan/unit
test: deps
	@tools/test.sh
lint:
	@tools/lint.sh
bench: all
	@tools/deps.sh test
	@tests/bench/run.sh
fuzz:
	@tests/fuzz/run.sh
# kill -9 of every role and of inits at random moments of 1,000 calls on 50 boxes, three times; `make test` has a sample of it.
storm: all
	@CRASH_CALLS=$${CRASH_CALLS:-1000} CRASH_BOXES=$${CRASH_BOXES:-50} CRASH_ROUNDS=$${CRASH_ROUNDS:-3} \
		/usr/bin/python3 -m pytest -q tests/api/test_crash.py -k storm
# 64 sessions through the Python client for five minutes (SOAK_SECONDS); `make test` has a sample of it.
soak: all
	@/usr/bin/python3 tests/compat/sdk_soak.py
# 200 workers of AgentFlow's API for five minutes (SOAK_SECONDS), beside its own executor's figure; `make test` has a sample.
soak-workers: all
	@/usr/bin/python3 tests/compat/soak.py
# The container image, by a dockerd of the test's own.
test-docker:
	@tests/docker/run.sh
clean:
	rm -rf build

-include $(OBJ:.o=.d) $(INIT_OBJ:.o=.d) $(UNIT_OBJ:.o=.d)
# The generated parts of the Python packages, after a tool was added or changed.
sdk: all
	/usr/bin/python3 sdk/python/generate.py

.PHONY: all deps code-server jupyterlab run unit test lint bench fuzz storm soak soak-workers test-docker sdk clean
