# Multigrain: the C library, the command, and what goes with them.
#
#   make                          the library and the command, in target/release
#   make apps                     the applications (apps/README.md), in build/apps
#   make demo                     one of them on 4 nodes
#   make test                     everything: cargo test, an installation in use, the applications
#   make soak                     the applications on all kinds of jobs, 20 times each
#   make test-hosts-long          over hosts with sshd, made of namespaces: 120 runs, and 200 random faults
#   make mutants                  seeded faults: every tool against each, and the table of them
#   make fuzz                     hostile input for an hour; `make fuzz-short`: its corpus and inputs near that
#   make miri shuttle loom asan tsan  memory and data-race tools, one each; see docs/TOOLS.md
#   make install [PREFIX=/usr/local] [LIBDIR=lib] [DESTDIR=]
#   make deb                      packages for Debian and Ubuntu, in build/deb
#   make uninstall                the same paths again
PREFIX ?= /usr/local
# Below PREFIX; a distribution has its own.
LIBDIR ?= lib
DESTDIR ?=
CARGO ?= cargo
# Where cargo builds, and where the applications go.
TARGET = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
RELEASE = $(TARGET)/release
APPS = $(CURDIR)/build/apps

# What is built names its sources from here on, and not by a place of the machine that built it.
SOURCES = $(CURDIR)=multigrain $(TARGET)=build $(or $(CARGO_HOME),$(HOME)/.cargo)=cargo
RELEASE_FLAGS = RUSTFLAGS="$(strip $(RUSTFLAGS) $(SOURCES:%=--remap-path-prefix=%))" \
	CFLAGS="$(strip $(CFLAGS) $(SOURCES:%=-ffile-prefix-map=%))"

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
# Where they lie in the source, so that their links hold; those that lead to the source alone become text (plain-links.sh).
DOCUMENTS = README.md CHANGELOG.md CONTRIBUTING.md LICENSE-MIT LICENSE-APACHE $(HEADERS) \
	$(wildcard docs/*.md docs/*.svg docs/adr/*.md docs/bench/* docs/tables/*) \
	crates/capi/tests/python/histogram.py crates/capi/tests/c/openmp.c crates/capi/tests/c/check.h

TO = $(DESTDIR)$(PREFIX)
TO_LIB = $(TO)/$(LIBDIR)
# From the libraries to PREFIX, as relative paths go.
UP = $(shell echo $(LIBDIR) | sed 's|[^/]\{1,\}|..|g')
# Programs find libraries where the system looks for them by themselves.
RPATH = $(if $(filter /usr,$(PREFIX)),,-Wl,-rpath,$${libdir} )
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@SONAME@|$(SONAME)|g' \
	-e 's|@MAJOR@|$(MAJOR)|g' -e 's|@MINOR@|$(MINOR)|g' -e 's|@STATIC_LIBS@|$(STATIC_LIBS)|g' \
	-e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@UP@|$(UP)|g' -e 's|@RPATH@|$(RPATH)|g'
MODULEFILE = $(TO)/share/modulefiles/multigrain/$(VERSION)
BASH = share/bash-completion/completions/multigrain
ZSH = share/zsh/site-functions/_multigrain
FISH = share/fish/vendor_completions.d/multigrain.fish

.PHONY: all apps demo test test-release test-debug build-checks soak test-hosts-long mutants test-mutants try-mutants build-mutants fuzz fuzz-short miri shuttle loom asan tsan check-install check-packaging install install-documents uninstall deb clean

all:
	$(RELEASE_FLAGS) $(CARGO) build --release -p multigrain-capi -p multigrain-cli -p multigrain-sysv-preload
	ln -sf libmultigrain.so $(RELEASE)/$(SONAME)

apps: all
	$(MAKE) -C apps MULTIGRAIN_LIB=$(RELEASE) OUT=$(APPS)

demo: apps
	$(RELEASE)/multigrain run -n 4 --summary $(APPS)/sor-mg

# Two rows side by side, for either leaves processors idle: what uses the release build, and what uses the other one. Then
# what has to be alone. Each of the two may be made by itself.
test:
	$(MAKE) -j2 test-release test-debug
	.ci/test.sh alone

test-release: apps
	$(MAKE) check-install check-packaging
	$(MAKE) -C apps check OUT=$(APPS)
	$(MAKE) asan
	apps/soak.sh $(APPS) $(RELEASE)/multigrain 1

test-debug: build-checks
	.ci/test.sh beside

# One after the other: two of them make the command, and the tests want the one without mutants.
build-checks:
	$(MAKE) build-mutants
	$(CARGO) test $(SHUTTLE) --no-run
	$(CARGO) test $(LOOM) --no-run
	$(CARGO) build $(FUZZ)
	$(CARGO) test --workspace --no-run

# Every application on 1 to 8 nodes, 1 and 3 threads, both guards and transports, 20 times.
soak: apps
	apps/soak.sh $(APPS) $(RELEASE)/multigrain 20

# Over hosts (crates/cli/tests/hosts_long.rs): needs root and sshd. ROUNDS, FAULTS and SEED may be given.
test-hosts-long: apps
	MULTIGRAIN_APPS=$(APPS) $(CARGO) test -p multigrain-cli --test hosts_long -- --ignored --nocapture --test-threads 1

# A crate of others is built once for each set of features that it is wanted with, and with it all that need it; packages
# that are selected and tests decide about them, whatever is built. So what is not a test of its own package selects these
# as well, and then has the features of `cargo test --workspace`. (The tests of shuttle and loom have the command, which
# has no --lib.)
ALIKE = -p multigrain-cli -p multigrain-protocol --test mutants

# Seeded faults (crates/protocol/src/mutants): which tool catches which. No other command has them, so
# this one is copied away from where cargo puts the next; what it shares with the tests is built once.
# The short form is the model checkers against those of the protocol, and the tools for flags and
# queues against theirs; and what fills queues without a mutant.
MUTANTS = $(TARGET)/mutants/multigrain mutants

mutants: build-mutants
	$(MUTANTS) --table docs/tables/mutants.md --proof docs/PROOF.md

test-mutants: build-mutants
	$(MAKE) try-mutants

# What is built already: beside other builds, cargo may put another command in place of this one's while it is copied.
try-mutants:
	$(CARGO) test $(ALIKE) --features multigrain-cli/mutants --bin multigrain -- mutants::
	$(MUTANTS) --without-control --first-catch --jobs 2 --protocol --tools check,check-release,sim-shares
	$(MUTANTS) --without-control --first-catch --jobs 2 --tools loom,peers,bounds
	$(MUTANTS) --without-control --first-catch --tools random runs-closed-unseen
	$(TARGET)/mutants/multigrain bounds

build-mutants:
	$(CARGO) test $(ALIKE) --features multigrain-cli/mutants --bin multigrain --no-run
	$(CARGO) build $(ALIKE) --features multigrain-cli/mutants --bin multigrain
	install -D $(TARGET)/debug/multigrain $(TARGET)/mutants/multigrain

# Hostile input (fuzz/fuzz_targets): the corpus again, then new input, guided by coverage. Needs g++ for libFuzzer.
fuzz:
	fuzz/run.sh 3600 --proof docs/PROOF.md

FUZZERS = $(notdir $(wildcard fuzz/corpus/*))
FUZZ = -p multigrain-fuzz $(ALIKE) --features multigrain-fuzz/targets $(FUZZERS:%=--bin %)

# The corpus once more, and inputs near it for two seconds each. An ordinary build, which shares all it can.
fuzz-short:
	$(CARGO) build $(FUZZ)
	for target in $(FUZZERS); do \
		echo "fuzz $$target"; timeout 120 $(TARGET)/debug/$$target 2 fuzz/corpus/$$target || exit 1; \
	done

# Memory and data-race tools; docs/TOOLS.md says what each sees. Miri is a part of nightly Rust.
miri: export MIRIFLAGS = -Zmiri-disable-isolation
miri: export PROPTEST_CASES ?= 4
miri:
	rustup component add --toolchain nightly miri rust-src
	$(CARGO) +nightly miri test -p multigrain-types -p multigrain-protocol
	$(CARGO) +nightly miri test -p multigrain-memory --lib --test layout
	$(CARGO) +nightly miri test -p multigrain-transport -p multigrain-runtime --lib

# The lists of what is built for them.
SHUTTLE = -p multigrain-transport -p multigrain-runtime -p multigrain-cli --lib --features multigrain-runtime/shuttle
LOOM = -p multigrain-transport -p multigrain-runtime -p multigrain-cli --lib --features multigrain-runtime/loom

# MULTIGRAIN_SCHEDULES=10000 for the long form.
shuttle:
	$(CARGO) test $(SHUTTLE) -- shuttle_tests hostile_tests

# What shuttle cannot see: the orders that weak memory allows. Seconds.
loom:
	$(CARGO) test $(LOOM) loom_tests

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

install: all install-documents
	install -d $(TO)/bin $(TO)/include $(TO_LIB)/pkgconfig $(TO_LIB)/cmake/Multigrain \
		$(TO)/share/man/man1 $(TO)/share/man/man3 $(TO)/share/man/man7 $(TO)/share/doc/multigrain
	install -m 755 $(RELEASE)/multigrain $(TO)/bin/multigrain
	install -m 755 $(RELEASE)/libmultigrain.so $(TO_LIB)/libmultigrain.so.$(VERSION)
	ln -sf libmultigrain.so.$(VERSION) $(TO_LIB)/$(SONAME)
	ln -sf $(SONAME) $(TO_LIB)/libmultigrain.so
	install -m 644 $(RELEASE)/libmultigrain.a $(TO_LIB)/libmultigrain.a
	install -D -m 755 $(RELEASE)/libmultigrain_sysv.so $(TO_LIB)/multigrain/libmultigrain_sysv.so
	install -m 644 $(HEADERS) $(TO)/include
	$(FILL) packaging/multigrain.pc.in > $(TO_LIB)/pkgconfig/multigrain.pc
	for file in MultigrainConfig MultigrainConfigVersion; do \
		$(FILL) packaging/$$file.cmake.in > $(TO_LIB)/cmake/Multigrain/$$file.cmake || exit 1; \
	done
	$(RELEASE)/multigrain man $(TO)/share/man/man1
	mv $(TO)/share/man/man1/*.3 $(TO)/share/man/man3
	mv $(TO)/share/man/man1/*.7 $(TO)/share/man/man7
	install -D -m 644 packaging/completions/multigrain $(TO)/$(BASH)
	install -D -m 644 packaging/completions/_multigrain $(TO)/$(ZSH)
	install -D -m 644 packaging/completions/multigrain.fish $(TO)/$(FISH)
	install -d $(dir $(MODULEFILE))
	$(FILL) packaging/modulefile.in > $(MODULEFILE)

install-documents:
	for file in $(DOCUMENTS); do \
		install -D -m 644 $$file $(TO)/share/doc/multigrain/$$file || exit 1; \
	done
	packaging/plain-links.sh $(TO)/share/doc/multigrain

uninstall:
	rm -f $(TO)/bin/multigrain $(HEADERS:%=$(TO)/%) $(TO_LIB)/libmultigrain.a \
		$(TO_LIB)/libmultigrain.so $(TO_LIB)/$(SONAME) $(TO_LIB)/libmultigrain.so.$(VERSION) \
		$(TO_LIB)/pkgconfig/multigrain.pc $(TO)/share/man/man1/multigrain.1 \
		$(TO)/share/man/man1/multigrain-*.1 $(TO)/share/man/man3/mg_*.3 \
		$(TO)/share/man/man3/multigrain.3 $(TO)/share/man/man7/multigrain.7 \
		$(TO)/$(BASH) $(TO)/$(ZSH) $(TO)/$(FISH) $(MODULEFILE)
	rm -rf $(TO_LIB)/cmake/Multigrain $(TO_LIB)/multigrain $(TO)/share/doc/multigrain

# Packages of the library, of what programs are built with, and of the command. Needs dpkg-dev.
deb: all
	MAKE="$(MAKE)" packaging/deb.sh $(VERSION) $(SONAME) build/deb

# The packages installed in a root of their own and used there; module file and Spack recipe read.
check-packaging: deb
	packaging/check-packaging.sh $(VERSION) build/deb $(TARGET)/check-packaging

clean:
	$(CARGO) clean
	$(MAKE) -C apps clean OUT=$(APPS)
