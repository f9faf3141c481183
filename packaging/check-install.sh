#!/bin/sh
# Installs as README.md says and uses what lies there: README's commands and its first program, exactly
# as they stand there and with nothing of this shell's environment; then as other projects would, by
# pkg-config, static linking, CMake, the manual; then uninstalls. Usage: check-install.sh DIRECTORY
set -eu

dir=$1
top=$(cd "$(dirname "$0")/.." && pwd)
home=$dir/home
prefix=$home/.local
tests=$top/crates/capi/tests
program=$tests/c/probe.c
rm -rf "$dir"
mkdir -p "$home" "$dir/work"
trap 'rm -rf "$dir"' EXIT

say() { echo "check-install: $*"; }

# The code block of a language ($1), by number ($2), of README, or of another document ($3).
block() {
    awk -v language="$1" -v number="$2" '
        /^```/ && inside { inside = 0; next }
        $0 == "```" language { inside = ++count == number; next }
        inside' "$top/${3:-README.md}"
}

# What stdin says, at $1, in an environment of PATH and HOME; what would make cargo build anew stays as it is.
as_written() {
    (cd "$1" && env -i PATH="$PATH" HOME="$home" \
        CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        ${CARGO_TARGET_DIR:+CARGO_TARGET_DIR="$CARGO_TARGET_DIR"} \
        ${RUSTFLAGS:+RUSTFLAGS="$RUSTFLAGS"} sh -eu)
}

# What the blocks say is kept, and shown if something is wrong with it.
said=$dir/said
failed() {
    say "$*; it said:"
    cat "$said"
    exit 1
}

say "README: the demonstration (without make test, of which this is a part)"
block sh 1 | sed '/^make test /d' | as_written "$top" > "$said" 2>&1 || failed "make demo failed"
grep -q sor "$said" || failed "the demonstration shows nothing"

say "README: an installation, and the first program"
block sh 2 | as_written "$top" > "$said" 2>&1 || failed "the installation failed"
block c 1 > "$dir/work/first.c"
block sh 3 | as_written "$dir/work" > "$said" 2>&1 || failed "the first program failed"
for node in 0 1 2 3; do
    # Once with the shared library, once without.
    test "$(grep -c "^\[$node\] node $node sees 6$" "$said")" = 2 || failed "node $node does not see 6"
done
if readelf -d "$dir/work/first" | grep -q NEEDED; then
    failed "the program linked with -static needs libraries"
fi

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"

say "pkg-config, shared"
# shellcheck disable=SC2046 # words, not one argument
cc -D_GNU_SOURCE "$program" -o "$dir/shared" $(pkg-config --cflags --libs multigrain)
readelf -d "$dir/shared" | grep -q 'NEEDED.*libmultigrain\.so\.0\]'

# A source of entropy that takes 25 ms of each node's start (ADR 38).
if nm "$prefix/lib/libmultigrain.a" 2>"$said" | grep -q ' jent_'; then
    failed "AWS-LC gathers entropy of its own"
fi
"$prefix/bin/multigrain" run -n 2 "$dir/shared"

say "PORTING: the whole program, with pthreads and ported to C and C++"
block c 1 docs/PORTING.md > "$dir/work/threads.c"
block c 2 docs/PORTING.md > "$dir/work/ported.c"
block cpp 1 docs/PORTING.md > "$dir/work/ported.cpp"
cc -Wall -Wextra -Werror -pthread "$dir/work/threads.c" -o "$dir/work/threads"
# shellcheck disable=SC2046 # words, not one argument
cc -Wall -Wextra -Werror "$dir/work/ported.c" -o "$dir/work/ported_c" $(pkg-config --cflags --libs multigrain)
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -Werror "$dir/work/ported.cpp" -o "$dir/work/ported_cpp" \
    $(pkg-config --cflags --libs multigrain)
"$dir/work/threads" > "$dir/work/expected"
test "$(wc -l < "$dir/work/expected")" = 8
for ported in ported_c ported_cpp; do
    for nodes in 1 4; do
        "$prefix/bin/multigrain" run --no-tag-output -n $nodes "$dir/work/$ported" > "$said"
        cmp "$said" "$dir/work/expected" || failed "PORTING's $ported is wrong on $nodes nodes"
    done
done

say "pkg-config, C++"
# shellcheck disable=SC2046
c++ -std=c++17 -pthread "$tests/cpp/threads.cpp" -o "$dir/cpp" $(pkg-config --cflags --libs multigrain) \
    -Wl,-rpath,"$prefix/lib"
"$prefix/bin/multigrain" run -n 2 "$dir/cpp"

if command -v gfortran > /dev/null; then
    say "pkg-config, Fortran"
    # shellcheck disable=SC2046
    gfortran -J"$dir" "$(pkg-config --variable=includedir multigrain)/multigrain.f90" \
        "$tests/fortran/everything.f90" -o "$dir/fortran" $(pkg-config --libs multigrain) -Wl,-rpath,"$prefix/lib"
    "$prefix/bin/multigrain" run -n 2 "$dir/fortran"
fi

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
project(check C CXX)
include(CheckLanguage)
check_language(Fortran)
if(CMAKE_Fortran_COMPILER)
  enable_language(Fortran)
endif()
find_package(Multigrain 0.1 REQUIRED)
find_package(Threads REQUIRED)
foreach(kind multigrain multigrain_static)
  add_executable(with_\${kind} $program)
  target_compile_definitions(with_\${kind} PRIVATE _GNU_SOURCE)
  target_link_libraries(with_\${kind} Multigrain::\${kind})
endforeach()
add_executable(with_cpp $tests/cpp/threads.cpp)
target_compile_features(with_cpp PRIVATE cxx_std_17)
target_link_libraries(with_cpp Multigrain::multigrain Threads::Threads)
if(TARGET Multigrain::fortran)
  add_executable(with_fortran $tests/fortran/everything.f90)
  target_link_libraries(with_fortran Multigrain::fortran)
endif()
END
    cmake -S "$dir/cmake" -B "$dir/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
    cmake --build "$dir/cmake/build" > /dev/null
    for kind in multigrain multigrain_static cpp; do
        "$prefix/bin/multigrain" run -n 2 "$dir/cmake/build/with_$kind"
    done
    if command -v gfortran > /dev/null; then
        "$prefix/bin/multigrain" run -n 2 "$dir/cmake/build/with_fortran"
    fi
fi

test -s "$prefix/share/man/man1/multigrain-run.1"
test -s "$prefix/share/man/man3/mg_lock.3"
test -s "$prefix/share/man/man3/multigrain.3"
test -s "$prefix/share/man/man7/multigrain.7"
for document in LICENSE-MIT LICENSE-APACHE CONTRIBUTING.md docs/PORTING.md; do
    test -s "$prefix/share/doc/multigrain/$document" || failed "$document is not installed"
done

say "links of installed documents"
"$top/packaging/check-links.sh" "$prefix/share/doc/multigrain" > "$said" || failed "links lead nowhere"

say "what is installed names no place of the machine that built it"
for file in bin/multigrain lib/libmultigrain.a lib/libmultigrain.so lib/multigrain/libmultigrain_sysv.so; do
    if grep -qaF -e "$top/" -e "${CARGO_HOME:-$HOME/.cargo}/" "$prefix/$file"; then
        failed "$file holds a path of this machine"
    fi
done

"${MAKE:-make}" -s -C "$top" uninstall PREFIX="$prefix"
left=$(find "$prefix" -type f -o -type l)
if [ -n "$left" ]; then
    say "left after uninstall: $left"
    exit 1
fi
say "all is well"
