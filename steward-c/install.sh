#!/bin/sh
# Links libsteward and libsteward-ralloc, and installs them with headers and files for pkg-config and CMake.
#
#   cargo build --release -p steward-c && steward-c/install.sh PREFIX [ARCHIVE]
#
# ARCHIVE is the static library that cargo made: release/libsteward_c.a in CARGO_TARGET_DIR, or in target, unless it is named. CC and CFLAGS as
# usual. Shared libraries are stripped, unless CFLAGS has -g. PREFIX is complete, or as it was.
#
# The system is the one that CC compiles for. For Windows, over `cargo build --release -p steward-c --target x86_64-pc-windows-gnu`:
#
#   CC=x86_64-w64-mingw32-gcc steward-c/install.sh PREFIX
set -eu
source=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: install.sh PREFIX [ARCHIVE]}
cc="${CC:-cc}"
machine=$($cc -dumpmachine)
case "$machine" in
  *-mingw32* | *-windows-gnu) target="${machine%%-*}-pc-windows-gnu" system="-lkernel32 -lntdll -luserenv -lws2_32 -ldbghelp" position="" ;;
  *) target="" system="-lgcc_s -lpthread -ldl -lm -lc" position="-fPIC -fno-plt" ;;
esac
archive=${2:-${CARGO_TARGET_DIR:-$source/../target}/${target:+$target/}release/libsteward_c.a}
[ -f "$archive" ] || {
  echo "install.sh: there is no $archive: run \`cargo build --release -p steward-c${target:+ --target $target}\`, or name the archive" >&2; exit 1
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/../Cargo.toml" | head -n 1)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
case " ${CFLAGS:-} " in *" -g"*) strip="" ;; *) strip="-Wl,--strip-all" ;; esac
# Everything is made here first.
lib="$work/prefix/lib"
mkdir -p "$lib/pkgconfig" "$lib/cmake/steward" "$work/prefix/include"

# What a command says is shown if it fails.
quietly() {
  "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

for file in ralloc_text ralloc_names; do
  # shellcheck disable=SC2086 # flags are words
  $cc ${CFLAGS:--O2} -std=c99 $position -I"$source/include" -c "$source/c/$file.c" -o "$work/$file.o"
done
# `ar` writes the archive's index anew. With LLVM's plugin of binutils installed, if it is older than rustc's LLVM, the index would have no name of the
# Rust objects: the compiler's own plugin is named instead, and then no other one is loaded.
plugin=$($cc -print-file-name=liblto_plugin.so)
archiver=$($cc -print-prog-name=ar)
add() {
  quietly "$archiver" --plugin "$plugin" rc "$@"
}
cp "$archive" "$lib/libsteward.a"
# Of these, which debuggers alone read, ld makes a library that Windows does not load.
names=$("$archiver" --plugin "$plugin" t "$lib/libsteward.a" | sed -n "/\\.dwo\$/p")
# shellcheck disable=SC2086 # one word a member
[ -z "$target" ] || quietly "$archiver" --plugin "$plugin" d "$lib/libsteward.a" $names
add "$lib/libsteward.a" "$work/ralloc_text.o"
add "$lib/libsteward-ralloc.a" "$work/ralloc_names.o"

# All of the archive, of which the linker keeps what the listed names need.
linked_for_elf() {
  # shellcheck disable=SC2086
  quietly $cc -shared $strip -o "$lib/libsteward.so.0" -Wl,-soname,libsteward.so.0 -Wl,-Bsymbolic -Wl,--gc-sections \
    -Wl,--version-script="$source/steward.map" -Wl,--whole-archive "$lib/libsteward.a" -Wl,--no-whole-archive $system
  ln -sf libsteward.so.0 "$lib/libsteward.so"
  # shellcheck disable=SC2086
  quietly $cc -shared $strip -o "$lib/libsteward-ralloc.so.0" -Wl,-soname,libsteward-ralloc.so.0 -Wl,-Bsymbolic \
    -Wl,--version-script="$source/steward-ralloc.map" "$work/ralloc_names.o" -L"$lib" -lsteward '-Wl,-rpath,$ORIGIN'
  ln -sf libsteward-ralloc.so.0 "$lib/libsteward-ralloc.so"
}

# A .def file of the same list stays beside the import library: other linkers make theirs of it.
linked_for_windows() {
  mkdir "$work/prefix/bin"
  for name in steward steward-ralloc; do
    { echo "LIBRARY $name.dll"; echo EXPORTS; sed -n 's/^  \(.*\);$/  \1/p' "$source/$name.map" | grep -v '\*'; } > "$lib/$name.def"
    case "$name" in
      steward) set -- -Wl,--whole-archive "$lib/libsteward.a" -Wl,--no-whole-archive ;;
      *) set -- "$work/ralloc_names.o" -L"$lib" -lsteward ;;
    esac
    # shellcheck disable=SC2086
    quietly $cc -shared $strip -static-libgcc -o "$work/prefix/bin/$name.dll" -Wl,--out-implib,"$lib/lib$name.dll.a" -Wl,--gc-sections \
      "$lib/$name.def" "$@" $system
  done
}

case "$target" in
  "") linked_for_elf ;;
  *) linked_for_windows ;;
esac

# A static program finds names of Rust and of C in the index.
"$($cc -print-prog-name=nm)" --plugin "$plugin" --print-armap "$lib/libsteward.a" > "$work/index" 2> "$work/log" || { cat "$work/log" >&2; exit 1; }
for name in steward_ralloc_size steward_ralloc_asprintf; do
  grep -q "^$name in " "$work/index" || { echo "install.sh: the index of $lib/libsteward.a lacks $name" >&2; exit 1; }
done

cp "$source/include/"* "$work/prefix/include/"
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
filled() {
  sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" -e "s|@system@|$system|" "$source/$1.in" > "$lib/$2/$1"
}
filled steward.pc pkgconfig
filled steward-ralloc.pc pkgconfig
filled steward-config.cmake cmake/steward
filled steward-config-version.cmake cmake/steward
# `tar` replaces files that a program has open, where `cp` would write into them.
(cd "$work/prefix" && tar -cf - .) | (cd "$prefix" && tar -xf -)
