#!/bin/sh
# Links libsteward and libsteward-ralloc, and installs them with headers and files for pkg-config.
#
#   cargo build --release -p steward-c && steward-c/install.sh PREFIX [ARCHIVE]
#
# ARCHIVE is the static library that cargo made: release/libsteward_c.a in CARGO_TARGET_DIR, or in target, unless it is named. CC and CFLAGS as
# usual. Shared libraries are stripped, unless CFLAGS has -g. PREFIX is complete, or as it was.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: install.sh PREFIX [ARCHIVE]}
archive=${2:-${CARGO_TARGET_DIR:-$source/../target}/release/libsteward_c.a}
[ -f "$archive" ] || {
  echo "install.sh: there is no $archive: run \`cargo build --release -p steward-c\`, or name the archive" >&2; exit 1
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/../Cargo.toml" | head -n 1)
cc="${CC:-cc}"
system="-lgcc_s -lpthread -ldl -lm -lc"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
case " ${CFLAGS:-} " in *" -g"*) strip="" ;; *) strip="-Wl,--strip-all" ;; esac
# Everything is made here first.
lib="$work/prefix/lib"
mkdir -p "$lib/pkgconfig" "$work/prefix/include"

# What a command says is shown if it fails.
quietly() {
  "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

for file in ralloc_text ralloc_names; do
  # shellcheck disable=SC2086 # flags are words
  $cc ${CFLAGS:--O2} -std=c99 -fPIC -fno-plt -I"$source/include" -c "$source/c/$file.c" -o "$work/$file.o"
done
# `ar` writes the archive's index anew. With LLVM's plugin of binutils installed, if it is older than rustc's LLVM, the index would have no name of the
# Rust objects: the compiler's own plugin is named instead, and then no other one is loaded.
add() {
  quietly ar --plugin "$($cc -print-file-name=liblto_plugin.so)" rc "$@"
}
cp "$archive" "$lib/libsteward.a"
add "$lib/libsteward.a" "$work/ralloc_text.o"
add "$lib/libsteward-ralloc.a" "$work/ralloc_names.o"

# All of the archive, of which the linker keeps what the listed names need.
# shellcheck disable=SC2086
quietly $cc -shared $strip -o "$lib/libsteward.so.0" -Wl,-soname,libsteward.so.0 -Wl,-Bsymbolic -Wl,--gc-sections \
  -Wl,--version-script="$source/steward.map" -Wl,--whole-archive "$lib/libsteward.a" -Wl,--no-whole-archive $system
ln -sf libsteward.so.0 "$lib/libsteward.so"
# shellcheck disable=SC2086
quietly $cc -shared $strip -o "$lib/libsteward-ralloc.so.0" -Wl,-soname,libsteward-ralloc.so.0 -Wl,-Bsymbolic \
  -Wl,--version-script="$source/steward-ralloc.map" "$work/ralloc_names.o" -L"$lib" -lsteward '-Wl,-rpath,$ORIGIN'
ln -sf libsteward-ralloc.so.0 "$lib/libsteward-ralloc.so"

# A static program finds names of Rust and of C in the index.
nm --print-armap "$lib/libsteward.a" > "$work/index" 2> "$work/log" || { cat "$work/log" >&2; exit 1; }
for name in steward_ralloc_size steward_ralloc_asprintf; do
  grep -q "^$name in " "$work/index" || { echo "install.sh: the index of $lib/libsteward.a lacks $name" >&2; exit 1; }
done

cp "$source/include/"* "$work/prefix/include/"
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
for name in steward steward-ralloc; do
  sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" -e "s|@system@|$system|" "$source/$name.pc.in" > "$lib/pkgconfig/$name.pc"
done
# `tar` replaces files that a program has open, where `cp` would write into them.
(cd "$work/prefix" && tar -cf - .) | (cd "$prefix" && tar -xf -)
