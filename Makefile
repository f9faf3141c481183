# Multigrain: the C library, the command, and what goes with them.
#
#   make                          the library and the command, in target/release
#   make apps                     the applications of the Millipage paper, in build/apps
#   make demo                     one of them on 4 nodes
#   make test                     everything: cargo test, an installation in use, the applications
#   make soak                     the applications on all kinds of jobs, 20 times each
#   make mutants                  seeded faults: every tool against each, and the table of them
#   make fuzz                     hostile input for an hour; `make fuzz-short`: half a minute
#   make miri shuttle loom asan tsan  memory and data-race tools, one each; see docs/TOOLS.md
#   make install [PREFIX=/usr/local] [DESTDIR=]
#   make uninstall                the same paths again
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
# Where cargo builds, and where the applications go.
TARGET = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
RELEASE = $(TARGET)/release
APPS = $(CURDIR)/build/apps

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
MAJOR := $(word 1,$(subst ., ,$(VERSION)))
MINOR := $(word 2,$(subst ., ,$(VERSION)))
# The interface the library promises; crates/capi/build.rs gives it this name.
SONAME = libmultigrain.so.0
# What libmultigrain.a needs: rustc --print native-static-libs, without gcc_s. The compiler adds that by
# itself, or under -static what stands for it.
STATIC_LIBS = -lutil -lrt -lpthread -lm -ldl -lc

# The interface in C, C++ and Fortran, whose module a program compiles with its own compiler.
HEADERS = include/multigrain.h include/multigrain.hpp include/multigrain.f90

TO = $(DESTDIR)$(PREFIX)
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@SONAME@|$(SONAME)|g' \
	-e 's|@MAJOR@|$(MAJOR)|g' -e 's|@MINOR@|$(MINOR)|g' -e 's|@STATIC_LIBS@|$(STATIC_LIBS)|g'

.PHONY: all apps demo test build-tests soak mutants test-mutants build-mutants fuzz fuzz-short miri shuttle loom asan tsan check-install install uninstall clean

all:
	$(CARGO) build --release -p multigrain-capi -p multigrain-cli
	ln -sf libmultigrain.so $(RELEASE)/$(SONAME)

apps: all
	$(MAKE) -C apps mg MULTIGRAIN_LIB=$(RELEASE) OUT=$(APPS)

demo: apps
	$(RELEASE)/multigrain run -n 4 --summary $(APPS)/sor-mg

# Builds first, two at a time, for the last part of the release build keeps one processor busy; then tests.
test:
	$(MAKE) -j2 all build-tests build-mutants
	$(MAKE) check-install apps
	$(CARGO) test --workspace
	$(MAKE) test-mutants shuttle loom fuzz-short asan
	$(MAKE) -C apps check OUT=$(APPS)
	apps/soak.sh $(APPS) $(RELEASE)/multigrain 1

build-tests:
	$(CARGO) test --workspace --no-run

# Every application on 1 to 8 nodes, 1 and 3 threads, both guards and transports, 20 times.
soak: apps
	apps/soak.sh $(APPS) $(RELEASE)/multigrain 20

# Seeded faults (crates/protocol/src/mutants): which tool catches which. Built apart, for no other
# build has them, and quickly, for nobody measures it. The short form is the model checkers against
# those of the protocol, and the tools for flags and queues against theirs.
MUTANTS = $(TARGET)/mutants/debug/multigrain mutants

mutants: build-mutants
	$(MUTANTS) --table docs/tables/mutants.md --proof docs/PROOF.md

test-mutants: build-mutants
	$(MUTANTS) --without-control --jobs 2 --protocol --tools check,check-release
	$(MUTANTS) --without-control --jobs 2 --tools loom,peers,bounds

build-mutants:
	$(CARGO) build -p multigrain-cli --features mutants --target-dir $(TARGET)/mutants

# Hostile input (fuzz/fuzz_targets): the corpus again, then new input. Needs g++ for libFuzzer.
fuzz:
	fuzz/run.sh 3600 --proof docs/PROOF.md

# The corpus once more, and a few seconds of new input for each target.
fuzz-short:
	fuzz/run.sh 24

# Memory and data-race tools; docs/TOOLS.md says what each sees. Miri is a part of nightly Rust.
miri: export MIRIFLAGS = -Zmiri-disable-isolation
miri: export PROPTEST_CASES ?= 4
miri:
	rustup component add --toolchain nightly miri rust-src
	$(CARGO) +nightly miri test -p multigrain-types -p multigrain-protocol
	$(CARGO) +nightly miri test -p multigrain-memory --lib --test layout
	$(CARGO) +nightly miri test -p multigrain-transport -p multigrain-runtime --lib

# MULTIGRAIN_SCHEDULES=10000 for the long form.
shuttle:
	$(CARGO) test -p multigrain-transport -p multigrain-runtime --lib \
		--features multigrain-runtime/shuttle -- shuttle_tests hostile_tests

# What shuttle cannot see: the orders that weak memory allows. Seconds.
loom:
	$(CARGO) test -p multigrain-transport -p multigrain-runtime --lib \
		--features multigrain-runtime/loom loom_tests

asan: all
	$(MAKE) -C apps mg-asan MULTIGRAIN_LIB=$(RELEASE) OUT=$(APPS)
	apps/sanitize.sh asan $(APPS) $(RELEASE)/multigrain

# ThreadSanitizer wants other addresses, and to be told what orders threads: a library apart.
TSAN = $(TARGET)/tsan
tsan: all
	$(CARGO) build --release -p multigrain-capi --features tsan --target-dir $(TSAN)
	ln -sf libmultigrain.so $(TSAN)/release/$(SONAME)
	$(MAKE) -C apps mg-tsan MULTIGRAIN_LIB=$(TSAN)/release OUT=$(APPS)
	apps/sanitize.sh tsan $(APPS) $(RELEASE)/multigrain

# Installs into a directory of its own, and uses what lies there.
check-install: all
	MAKE="$(MAKE)" packaging/check-install.sh $(TARGET)/check-install

install: all
	install -d $(TO)/bin $(TO)/include $(TO)/lib/pkgconfig $(TO)/lib/cmake/Multigrain \
		$(TO)/share/man/man1 $(TO)/share/man/man3
	install -m 755 $(RELEASE)/multigrain $(TO)/bin/multigrain
	install -m 755 $(RELEASE)/libmultigrain.so $(TO)/lib/libmultigrain.so.$(VERSION)
	ln -sf libmultigrain.so.$(VERSION) $(TO)/lib/$(SONAME)
	ln -sf $(SONAME) $(TO)/lib/libmultigrain.so
	install -m 644 $(RELEASE)/libmultigrain.a $(TO)/lib/libmultigrain.a
	install -m 644 $(HEADERS) $(TO)/include
	$(FILL) packaging/multigrain.pc.in > $(TO)/lib/pkgconfig/multigrain.pc
	for file in MultigrainConfig MultigrainConfigVersion; do \
		$(FILL) packaging/$$file.cmake.in > $(TO)/lib/cmake/Multigrain/$$file.cmake || exit 1; \
	done
	$(RELEASE)/multigrain man $(TO)/share/man/man1
	mv $(TO)/share/man/man1/*.3 $(TO)/share/man/man3

uninstall:
	rm -f $(TO)/bin/multigrain $(HEADERS:%=$(TO)/%) $(TO)/lib/libmultigrain.a \
		$(TO)/lib/libmultigrain.so $(TO)/lib/$(SONAME) $(TO)/lib/libmultigrain.so.$(VERSION) \
		$(TO)/lib/pkgconfig/multigrain.pc $(TO)/share/man/man1/multigrain.1 \
		$(TO)/share/man/man1/multigrain-*.1 $(TO)/share/man/man3/mg_*.3
	rm -rf $(TO)/lib/cmake/Multigrain

clean:
	$(CARGO) clean
	$(MAKE) -C apps clean OUT=$(APPS)
