# Multigrain: the C library, the command, and what goes with them.
#
#   make                          the library and the command, in target/release
#   make apps                     the applications of the Millipage paper, in build/apps
#   make demo                     one of them on 4 nodes
#   make test                     everything: cargo test, an installation in use, the applications
#   make soak                     the applications on all kinds of jobs, 20 times each
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
# What libmultigrain.a needs: rustc --print native-static-libs.
STATIC_LIBS = -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc

TO = $(DESTDIR)$(PREFIX)
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@SONAME@|$(SONAME)|g' \
	-e 's|@MAJOR@|$(MAJOR)|g' -e 's|@MINOR@|$(MINOR)|g' -e 's|@STATIC_LIBS@|$(STATIC_LIBS)|g'

.PHONY: all apps demo test soak check-install install uninstall clean

all:
	$(CARGO) build --release -p multigrain-capi -p multigrain-cli
	ln -sf libmultigrain.so $(RELEASE)/$(SONAME)

apps: all
	$(MAKE) -C apps mg MULTIGRAIN_LIB=$(RELEASE) OUT=$(APPS)

demo: apps
	$(RELEASE)/multigrain run -n 4 --summary $(APPS)/sor-mg

test: check-install apps
	$(CARGO) test --workspace
	$(MAKE) -C apps check OUT=$(APPS)
	apps/soak.sh $(APPS) $(RELEASE)/multigrain 1

# Every application on 1 to 8 nodes, 1 and 3 threads, both guards and transports, 20 times.
soak: apps
	apps/soak.sh $(APPS) $(RELEASE)/multigrain 20

# Installs into a directory of its own, and uses what lies there.
check-install: all
	MAKE="$(MAKE)" packaging/check-install.sh $(TARGET)/check-install

install: all
	install -d $(TO)/bin $(TO)/include $(TO)/lib/pkgconfig $(TO)/lib/cmake/Multigrain \
		$(TO)/share/man/man1
	install -m 755 $(RELEASE)/multigrain $(TO)/bin/multigrain
	install -m 755 $(RELEASE)/libmultigrain.so $(TO)/lib/libmultigrain.so.$(VERSION)
	ln -sf libmultigrain.so.$(VERSION) $(TO)/lib/$(SONAME)
	ln -sf $(SONAME) $(TO)/lib/libmultigrain.so
	install -m 644 $(RELEASE)/libmultigrain.a $(TO)/lib/libmultigrain.a
	install -m 644 include/multigrain.h $(TO)/include/multigrain.h
	$(FILL) packaging/multigrain.pc.in > $(TO)/lib/pkgconfig/multigrain.pc
	for file in MultigrainConfig MultigrainConfigVersion; do \
		$(FILL) packaging/$$file.cmake.in > $(TO)/lib/cmake/Multigrain/$$file.cmake || exit 1; \
	done
	$(RELEASE)/multigrain man $(TO)/share/man/man1

uninstall:
	rm -f $(TO)/bin/multigrain $(TO)/include/multigrain.h $(TO)/lib/libmultigrain.a \
		$(TO)/lib/libmultigrain.so $(TO)/lib/$(SONAME) $(TO)/lib/libmultigrain.so.$(VERSION) \
		$(TO)/lib/pkgconfig/multigrain.pc $(TO)/share/man/man1/multigrain.1 \
		$(TO)/share/man/man1/multigrain-*.1
	rm -rf $(TO)/lib/cmake/Multigrain

clean:
	$(CARGO) clean
	$(MAKE) -C apps clean OUT=$(APPS)
