#!/bin/sh
# Installs into a directory and uses what lies there, as another project would: pkg-config, static
# linking, CMake, the manual; then uninstalls. Usage: check-install.sh DIRECTORY
set -eu

dir=$1
top=$(cd "$(dirname "$0")/.." && pwd)
prefix=$dir/prefix
program=$top/crates/capi/tests/c/probe.c
rm -rf "$dir"
mkdir -p "$dir"
trap 'rm -rf "$dir"' EXIT

say() { echo "check-install: $*"; }

"${MAKE:-make}" -s -C "$top" install PREFIX="$prefix"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"

say "pkg-config, shared"
# shellcheck disable=SC2046 # words, not one argument
cc -D_GNU_SOURCE "$program" -o "$dir/shared" $(pkg-config --cflags --libs multigrain) \
    -Wl,-rpath,"$prefix/lib"
readelf -d "$dir/shared" | grep -q 'NEEDED.*libmultigrain\.so\.0\]'
"$prefix/bin/multigrain" run -n 2 "$dir/shared"

say "pkg-config, static"
rm -rf "$dir/static-only"
mkdir "$dir/static-only"
cp "$prefix/lib/libmultigrain.a" "$dir/static-only"
# shellcheck disable=SC2046
cc -D_GNU_SOURCE "$program" -o "$dir/static" -L"$dir/static-only" \
    $(pkg-config --static --cflags --libs multigrain | sed "s|-L$prefix/lib||")
if readelf -d "$dir/static" | grep -q libmultigrain; then
    say "the static program needs the shared library"
    exit 1
fi
"$prefix/bin/multigrain" run -n 2 "$dir/static"

if command -v cmake > /dev/null; then
    say "cmake"
    mkdir "$dir/cmake"
    cat > "$dir/cmake/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.10)
project(check C)
find_package(Multigrain 0.1 REQUIRED)
foreach(kind multigrain multigrain_static)
  add_executable(with_\${kind} $program)
  target_compile_definitions(with_\${kind} PRIVATE _GNU_SOURCE)
  target_link_libraries(with_\${kind} Multigrain::\${kind})
endforeach()
END
    cmake -S "$dir/cmake" -B "$dir/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
    cmake --build "$dir/cmake/build" > /dev/null
    for kind in multigrain multigrain_static; do
        "$prefix/bin/multigrain" run -n 2 "$dir/cmake/build/with_$kind"
    done
fi

test -s "$prefix/share/man/man1/multigrain-run.1"
test -s "$prefix/share/man/man3/mg_lock.3"

"${MAKE:-make}" -s -C "$top" uninstall PREFIX="$prefix"
left=$(find "$prefix" -type f -o -type l)
if [ -n "$left" ]; then
    say "left after uninstall: $left"
    exit 1
fi
say "all is well"
