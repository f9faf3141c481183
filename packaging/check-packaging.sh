#!/bin/sh
# Installs the packages into a root of their own and uses what lies there: the first program of README.md is
# compiled against it, and run. Then the module file and the Spack recipe are read by what reads them.
# Usage: check-packaging.sh VERSION PACKAGES DIRECTORY
set -eu

version=$1 packages=$2 dir=$3
top=$(cd "$(dirname "$0")/.." && pwd)
root=$dir/root
rm -rf "$dir"
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$dir/work"
trap 'rm -rf "$dir"' EXIT

say() { echo "check-packaging: $*"; }
fail() { say "$*"; exit 1; }

say "dpkg installs the packages into a root of their own"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
# That system has nothing that they depend on, and no programs for triggers; this one has.
as_root() { if test "$(id -u)" = 0; then "$@"; else fakeroot "$@"; fi; }
as_root dpkg --root="$root" --force-depends --force-script-chrootless --no-triggers \
    --install "$packages"/*.deb > "$dir/said" 2>&1 || { cat "$dir/said"; fail "dpkg failed"; }
for package in libmultigrain0 libmultigrain-dev multigrain; do
    dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package} ${Version}\n' "$package" |
        grep -qx "$package $version" || fail "$package is not installed"
done
for package in "$packages"/libmultigrain0_*.deb "$packages"/multigrain_*.deb; do
    dpkg-deb -f "$package" Depends | grep -q 'libc6 (>= ' || fail "$package does not say which libc6 it needs"
done
if dpkg-deb -c "$packages"/multigrain_*.deb | grep -q modulefiles; then fail "a module file in a package"; fi

say "a program is compiled against them and runs"
awk '$0 == "```c" { inside = 1; next } /^```/ && inside { exit } inside' "$top/README.md" > "$dir/work/first.c"
library=$(dirname "$(find "$root/usr/lib" -name libmultigrain.a)")
export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$library/pkgconfig"
# shellcheck disable=SC2046 # words, not one argument
cc "$dir/work/first.c" -o "$dir/work/first" $(pkg-config --cflags --libs multigrain) "-I$root/usr/include" "-L$library"
if readelf -d "$dir/work/first" | grep -q 'RUNPATH\|RPATH'; then fail "a program of the system's library has a path to it"; fi
LD_LIBRARY_PATH=$library "$root/usr/bin/multigrain" run -n 4 "$dir/work/first" > "$dir/said"
test "$(grep -c 'sees 6$' "$dir/said")" = 4 || { cat "$dir/said"; fail "the program is wrong"; }
test -s "$root/usr/share/man/man1/multigrain-run.1.gz" || fail "no manual"
test -s "$root/usr/share/man/man7/multigrain.7.gz" || fail "no overview in the manual"
test -s "$root/usr/share/doc/multigrain/CONTRIBUTING.md" || fail "no documents"
for package in libmultigrain0 libmultigrain-dev multigrain; do
    grep -q 'Apache License' "$root/usr/share/doc/$package/copyright" || fail "$package has no licence"
done
test -s "$root/usr/share/zsh/vendor-completions/_multigrain" || fail "no completions"
if command -v cmake > /dev/null; then
    cat > "$dir/work/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.10)
project(check C)
find_package(Multigrain 0.1 REQUIRED)
add_executable(with_cmake first.c)
target_link_libraries(with_cmake Multigrain::multigrain)
END
    cmake -S "$dir/work" -B "$dir/work/build" -DMultigrain_DIR="$library/cmake/Multigrain" > /dev/null
    cmake --build "$dir/work/build" > /dev/null
    "$root/usr/bin/multigrain" run -n 2 "$dir/work/build/with_cmake" > /dev/null
fi
as_root dpkg --root="$root" --force-script-chrootless --no-triggers --purge multigrain libmultigrain-dev \
    libmultigrain0 > "$dir/said" 2>&1 || { cat "$dir/said"; fail "dpkg cannot remove them"; }
left=$(find "$root" -path "$root/var" -prune -o -type f -print -o -type l -print)
test -z "$left" || fail "left after removal: $left"

say "the module file"
sed -e "s|@PREFIX@|/opt/x|g" -e "s|@VERSION@|$version|g" -e "s|@LIBDIR@|lib|g" "$top/packaging/modulefile.in" \
    > "$dir/work/module"
head -n 1 "$dir/work/module" | grep -q '^#%Module' || fail "it does not begin as module files do"
if command -v tclsh > /dev/null; then
    cat > "$dir/work/read.tcl" << 'END'
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {name path} { puts "$name=$path" }
source [lindex $argv 0]
ModulesHelp
END
    tclsh "$dir/work/read.tcl" "$dir/work/module" > "$dir/said" 2> /dev/null || fail "Tcl does not read it"
    grep -qx 'LD_LIBRARY_PATH=/opt/x/lib' "$dir/said" || fail "it does not name the library's place"
fi

say "the Spack recipe"
if command -v python3 > /dev/null; then
    cat > "$dir/work/read.py" << 'END'
import sys, types, posixpath
told = {"version": [], "depends_on": [], "requires": [], "license": []}
spack, package = types.ModuleType("spack"), types.ModuleType("spack.package")
for name, calls in told.items():
    setattr(package, name, lambda *words, calls=calls, **more: calls.append(words))
package.MakefilePackage, package.join_path = object, posixpath.join
sys.modules.update({"spack": spack, "spack.package": package})
scope = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), scope)
assert told["version"] == [(sys.argv[2],)], told
recipe = scope["Multigrain"]()
recipe.prefix = "/opt/x"
assert recipe.install_targets == ["install", "PREFIX=/opt/x"], recipe.install_targets
END
    python3 "$dir/work/read.py" "$top/packaging/spack/package.py" "$version" || fail "it cannot be read"
fi
say "all is well"
