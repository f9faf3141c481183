#!/bin/sh
# Packages for Debian and Ubuntu, from what `make install` puts into a directory: the library, what programs are
# built with, and the command. Usage: deb.sh VERSION SONAME DIRECTORY
set -eu

version=$1 soname=$2 out=$3
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
architecture=$(dpkg --print-architecture)
libdir=lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
# libmultigrain.so.0 is in libmultigrain0.
library=$(echo "$soname" | sed 's/\.so\.//')
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

"${MAKE:-make}" -s install DESTDIR="$stage/all" PREFIX=/usr LIBDIR="$libdir"

# Moves paths below /usr into a package.
take() {
    package=$1
    shift
    for path; do
        mkdir -p "$stage/$package/usr/$(dirname "$path")"
        mv "$stage/all/usr/$path" "$stage/$package/usr/$path"
    done
}
take "$library" "$libdir/$soname" "$libdir/libmultigrain.so.$version"
take multigrain "$libdir/multigrain"
take libmultigrain-dev include "$libdir" share/man/man3
take multigrain bin share/man/man1 share/man/man7 share/doc share/bash-completion share/fish
mkdir -p "$stage/multigrain/usr/share/zsh"
mv "$stage/all/usr/share/zsh/site-functions" "$stage/multigrain/usr/share/zsh/vendor-completions"
# Modules are for what lies beside the system.
rm -r "$stage/all/usr/share/modulefiles"
left=$(find "$stage/all" -type f -o -type l)
test -z "$left" || { echo "deb.sh: in no package: $left"; exit 1; }

# What a package's programs and libraries need, by their symbols.
needs() {
    mkdir -p "$stage/debian"
    printf 'Source: multigrain\n\nPackage: %s\nArchitecture: any\n' "$1" > "$stage/debian/control"
    (cd "$stage" && dpkg-shlibdeps -O "$2" 2> shlibdeps.log || { cat shlibdeps.log >&2; exit 1; }) |
        sed 's/^shlibs:Depends=//'
}
strip --strip-debug "$stage/multigrain/usr/bin/multigrain" "$stage/$library/usr/$libdir/libmultigrain.so.$version"
strip --strip-debug "$stage/multigrain/usr/$libdir/multigrain/libmultigrain_sysv.so"
strip --strip-debug "$stage/libmultigrain-dev/usr/$libdir/libmultigrain.a"
find "$stage"/*/usr/share/man -type f -exec gzip -9n {} +
library_needs=$(needs "$library" "$stage/$library/usr/$libdir/libmultigrain.so.$version")
command_needs=$(needs multigrain "$stage/multigrain/usr/bin/multigrain")

# The package NAME with SECTION, what it DEPENDS on, and its description from stdin.
build() {
    name=$1 section=$2 depends=$3
    doc=$stage/$name/usr/share/doc/$name
    mkdir -p "$stage/$name/DEBIAN" "$doc"
    cat LICENSE-MIT LICENSE-APACHE > "$doc/copyright"
    {
        echo "Package: $name"
        echo "Source: multigrain"
        echo "Version: $version"
        echo "Architecture: $architecture"
        echo "Maintainer: ${DEBFULLNAME:-The Multigrain authors} <${DEBEMAIL:-multigrain@localhost}>"
        echo "Installed-Size: $(du -ks "$stage/$name/usr" | cut -f1)"
        echo "Depends: $depends"
        test "$name" = multigrain || echo "Multi-Arch: same"
        test "$name" != multigrain || echo "Recommends: openssh-client"
        echo "Section: $section"
        echo "Priority: optional"
        cat
    } > "$stage/$name/DEBIAN/control"
    (cd "$stage/$name" && find usr -type f -exec md5sum {} + > DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zgzip --build "$stage/$name" "$out" > /dev/null
}
rm -rf "$out"
mkdir -p "$out"
echo "$soname" | sed "s/\(.*\)\.so\.\(.*\)/\1 \2 $library (= $version)/" > "$stage/shlibs"
mkdir -p "$stage/$library/DEBIAN"
cp "$stage/shlibs" "$stage/$library/DEBIAN/shlibs"
echo "activate-noawait ldconfig" > "$stage/$library/DEBIAN/triggers"
build "$library" libs "$library_needs" << 'END'
Description: software distributed shared memory: the library
 A program of threads runs over many processes and machines, which share memory
 at the grain that the program chooses, through ordinary pointers.
END
build libmultigrain-dev libdevel "$library (= $version), libc6-dev" << 'END'
Description: software distributed shared memory: development files
 Headers for C and C++, the module for Fortran, the static library, and files
 for pkg-config and CMake.
END
build multigrain net "$command_needs" << 'END'
Description: software distributed shared memory: the command
 Starts programs over many processes and machines, checks whether hosts are as
 programs need them (multigrain doctor), measures, and proves the protocols.
END
ls "$out"
