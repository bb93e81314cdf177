#!/usr/bin/env bash
# Runs the whole test suite with every C program and library in it, the runtime and the generated code first of
# all, built with AddressSanitizer and UndefinedBehaviorSanitizer: once with each compiler in SANITIZE_CC (default
# gcc and clang, those that are there). Arguments go to pytest (tests/cases, -k NAME, ...). Compiled stacks, logs
# and findings are under .sanitize/ (or SANITIZE_FOLDER). Fails if a test does or a sanitizer finds something, after
# all have run.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

# What cannot run so, each with its reason.
deselected=(
    # builds with sanitizers of its own, those of libFuzzer: `make fuzz` is for them
    tests/robust/test_fuzz.py
    # such a run itself, shorter; and of this script
    tests/robust/test_sanitized.py::test_everything_is_clean
    tests/robust/test_sanitize.py
    # measures the memory of the process; a million connections take long
    tests/scale/test_connections.py
    # counts what the generated code calls, which the sanitizers add to
    tests/robust/test_cost.py
)

mkdir -p "${SANITIZE_FOLDER:-.sanitize}"
folder=$(cd "${SANITIZE_FOLDER:-.sanitize}" && pwd)
flags="-fsanitize=address,undefined,float-divide-by-zero,float-cast-overflow -fno-sanitize-recover=all"
flags="$flags -fno-omit-frame-pointer -O1"

compilers=()
for cc in ${SANITIZE_CC:-gcc clang}; do
    if command -v "$cc" >/dev/null; then
        compilers+=("$cc")
    elif [ -n "${SANITIZE_CC:-}" ]; then
        echo "sanitize: there is no $cc" >&2
        exit 2
    fi
done
[ ${#compilers[@]} -gt 0 ] || { echo "sanitize: neither gcc nor clang" >&2; exit 2; }

# The sanitizers' library of a compiler, which must be in a Python process before all others.
library() {
    local name path
    case $("$1" --version) in
        *clang*) name=libclang_rt.asan-$(uname -m).so ;;
        *) name=libasan.so ;;
    esac
    path=$("$1" -print-file-name="$name")
    [ -f "$path" ] && realpath "$path"
}

# gcc keeps UndefinedBehaviorSanitizer in a library of its own, which beside the other one does not hear of
# log_path; what it finds in a test would be lost with pytest's capture of the standard error.
report_to_file() {
    "$1" -fPIC -shared -x c - -o "$2" -ldl <<'END'
#include <dlfcn.h>
#include <stdlib.h>
__attribute__((constructor)) static void report_to_file(void) {
    void *library = dlopen("libubsan.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*set)(const char *) = library ? (void (*)(const char *))dlsym(library, "__sanitizer_set_report_path") : 0;
    if (set)
        set(getenv("SANITIZE_FINDINGS"));
}
END
}

# wrapper FILE COMMAND FLAGS: COMMAND with FLAGS at the end, and without the library that Python has to load.
wrapper() {
    printf '#!/bin/sh\nunset LD_PRELOAD\nexec %s "$@" %s\n' "$2" "$3" >"$1"
    chmod +x "$1"
}

failed=()
for cc in "${compilers[@]}"; do
    if ! library=$(library "$cc"); then
        echo "sanitize: $cc has no library of AddressSanitizer to load into Python"
        failed+=("$cc")
        continue
    fi
    more=$flags
    preload=$library
    here=$folder/${cc##*/}
    rm -rf "${here:?}"/{bin,findings,log}
    mkdir -p "$here"/{bin,findings}
    if [[ $library = *clang* ]]; then
        more="$flags -shared-libsan -Wl,-rpath,$(dirname "$library") -Wno-unused-command-line-argument"
    else
        report_to_file "$cc" "$here/bin/report.so"
        preload="$library $(realpath "$("$cc" -print-file-name=libubsan.so)") $here/bin/report.so"
    fi
    for name in gcc clang; do # a process has room for the sanitizers of one compiler
        if path=$(command -v $name); then wrapper "$here/bin/$name" "$path" ""; fi
    done
    for name in cc "${cc##*/}"; do
        wrapper "$here/bin/$name" "$(command -v "$cc")" "$more"
    done
    cplusplus=g++ # what links with C that has the sanitizers of this compiler
    if [[ $library = *clang* ]]; then cplusplus=clang++; fi
    if path=$(command -v $cplusplus); then
        for name in c++ g++ clang++; do wrapper "$here/bin/$name" "$path" "$more"; done
    fi
    symbolizer= # which under the sanitizer itself waits for ever
    if path=$(command -v llvm-symbolizer); then
        symbolizer=$here/bin/llvm-symbolizer
        wrapper "$symbolizer" "$path" ""
    fi
    echo "sanitize: the tests with $cc"
    status=0
    options="symbolize=1:log_path=$here/findings/found:print_stacktrace=1"
    # SLUICE_CFLAGS are in the wrapper already; here for the name under which a stack is kept.
    # Python keeps much to its end, so leaks are not looked for: the tests count what a box has left.
    # A finding ends its process; pytest's own handler of crashes would come before the sanitizer's.
    # CI=true has Hypothesis set no time limits.
    env CI=true PATH="$here/bin:$PATH" CC="${cc##*/}" SLUICE_CFLAGS="$more" SLUICE_CACHE="$here/cache" \
        LD_PRELOAD="$preload" SANITIZE_FINDINGS="$here/findings/found" PYTHONMALLOC=malloc \
        ${symbolizer:+ASAN_SYMBOLIZER_PATH="$symbolizer" UBSAN_SYMBOLIZER_PATH="$symbolizer"} \
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:malloc_context_size=6:$options" \
        UBSAN_OPTIONS="halt_on_error=1:$options" \
        .venv/bin/python -m pytest -n 2 -p no:faulthandler "${deselected[@]/#/--deselect=}" "$@" \
        2>&1 | tee "$here/log" || status=$?
    for found in "$here"/findings/*; do
        [ -e "$found" ] || break
        status=1
        head -n 40 "$found"
    done
    if [ $status -eq 0 ]; then
        echo "sanitize: $cc clean"
    else
        echo "sanitize: $cc found something or a test failed; findings in $here/findings, log in $here/log"
        failed+=("$cc")
    fi
done
[ ${#failed[@]} -eq 0 ] || { echo "sanitize: failed: ${failed[*]}"; exit 1; }
