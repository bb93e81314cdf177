#!/usr/bin/env bash
# Gets what running, testing and changing Sluice from a checkout needs: .venv with Sluice itself, a C compiler, OpenSSL's
# libcrypto, and what else is asked for. Says in a line each what it does, and nothing when there is nothing to do.
#
#   scripts/setup.sh                    what `sluice` needs
#   scripts/setup.sh --tools            also the locked tools of requirements-dev.lock, in the same .venv
#   scripts/setup.sh --sanitizers       these, and clang with libFuzzer and the sanitizers; fails where it cannot
#   scripts/setup.sh --sanitizers=try   the same, but only says so where it cannot get that clang
#   scripts/setup.sh --tshark           the tools, and tshark, with which tests compare; only says so where it cannot
#   scripts/setup.sh --analyze          what `sluice analyze` needs: LLVM 19 and clang; fails where it cannot. For tests: libpcap
#   scripts/setup.sh --analyze=try      the same, but only says so where it cannot
#   scripts/setup.sh --bench            what `make bench` compares with and makes traces with; only says so where it cannot
#   scripts/setup.sh --browser          Chromium and playwright, for tests of the report's page; only says so where it cannot
#   scripts/setup.sh --notebook         jupyter's nbclient and matplotlib, for examples/notebook; only says so where it cannot
#   scripts/setup.sh --site             MkDocs Material, for `make site`; fails where it cannot
#   scripts/setup.sh --dpdk             DPDK, for -i dpdk:DEVICE; fails where it cannot
#   scripts/setup.sh --isolate          what `sluice isolate` needs: clang for BPF, libbpf, iproute2; fails where it cannot
#   scripts/setup.sh --isolate=try      the same, but only says so where it cannot
#
# Environment: PYTHON (3.11 or later), CC (the compiler to use instead of gcc or clang).
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

sanitizers=no
tools=no
tshark=no
bench=no
isolate=no
analyze=no
browser=no
notebook=no
site=no
dpdk=no
for arg in "$@"; do
    case $arg in --bench | --isolate | --isolate=try | --analyze | --browser | --notebook | --site | --dpdk) ;; *) tools=yes ;; esac
    case $arg in
        --tools) ;;
        --sanitizers) sanitizers=must ;;
        --sanitizers=try) sanitizers=try ;;
        --tshark) tshark=yes ;;
        --bench) bench=yes ;;
        --browser) browser=yes ;;
        --notebook) notebook=yes ;;
        --site) site=must ;;
        --dpdk) dpdk=must ;;
        --isolate) isolate=must ;;
        --isolate=try) isolate=try ;;
        --analyze) analyze=must ;;
        --analyze=try) analyze=try ;;
        *)
            options="[--tools] [--sanitizers[=try]] [--tshark] [--bench] [--isolate[=try]] [--analyze[=try]] [--browser] [--notebook] [--site] [--dpdk]"
            echo "usage: scripts/setup.sh $options" >&2
            exit 2
            ;;
    esac
done

venv=.venv
stamp=$venv/setup.stamp                  # the key for which all that `sluice` needs was set up
tools_stamp=$venv/tools.stamp            # the key for which the tools were
sanitizers_stamp=$venv/sanitizers.stamp  # that key, and whether there are sanitizers
tshark_stamp=$venv/tshark.stamp          # that key, when tshark was looked for in vain
analyze_stamp=$venv/analyze.stamp        # that key, when LLVM 19 or libpcap was looked for in vain
bench_stamp=$venv/bench.stamp            # that key, when what `make bench` can use was looked for
isolate_stamp=$venv/isolate.stamp        # that key, when what `sluice isolate` needs was looked for in vain

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command without its output, which is shown only if the command fails.
quietly() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    [ $status -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return $status
}

can_apt() { [ "$(id -u)" -eq 0 ] && have apt-get; }

apt() { quietly env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@"; }

apt_updated=no
apt_install() {
    say "apt-get install $*"
    [ $apt_updated = yes ] || apt update || say "apt-get update failed; going on with the lists that are here"
    apt_updated=yes
    apt install --no-install-recommends "$@"
}

pip_install() {
    local pulse status=0
    # the sleep may outlive all this: it holds neither the lock nor the output
    while sleep 20 >/dev/null 2>&1 9>&-; do say "still installing ..."; done &
    pulse=$!
    quietly $venv/bin/python -m pip install -q --no-input --disable-pip-version-check "$@" || status=$?
    kill $pulse
    wait $pulse 2>/dev/null || true
    return $status
}

# Everything that a set-up depends on: when it is as before, nothing has to be done.
key() {
    {
        cat scripts/setup.sh pyproject.toml requirements-*.lock
        echo "$PWD ${CC:-}"
        for program in gcc clang make; do command -v $program || true; done
    } | sha256sum
}

is_set_up() { [ -x $venv/bin/python ] && [ "$(cat $stamp 2>/dev/null)" = "$(key)" ]; }

tools_settled() { [ $tools = no ] || [ "$(cat $tools_stamp 2>/dev/null)" = "$(key)" ]; }

# Whether sanitizers need no further look: there, or looked for in vain where that is enough.
sanitizers_settled() {
    local found
    [ $sanitizers = no ] && return
    found=$(cat $sanitizers_stamp 2>/dev/null) || return
    [ "$found" = "yes $(key)" ] && return
    [ $sanitizers = try ] && [ "$found" = "no $(key)" ] && say "going on without sanitizers"
}

# The same for tshark.
tshark_settled() {
    { [ $tshark = no ] || have tshark; } && return
    [ "$(cat $tshark_stamp 2>/dev/null)" = "$(key)" ] && say "going on without tshark"
}

have_analyze() { have llvm-config-19 && have llvm-objcopy-19 && have clang-19 && have g++ && have make; }

# What programs that its tests run are linked with.
have_libpcap() { compgen -G '/usr/lib/*/libpcap.so.0.8' >/dev/null; }

# The same for what `sluice analyze` and its tests need; only the tests need libpcap.
analyze_settled() {
    { [ $analyze = no ] || { have_analyze && have_libpcap; }; } && return
    { have_analyze || [ $analyze = try ]; } && [ "$(cat $analyze_stamp 2>/dev/null)" = "$(key)" ] &&
        say "going on without $(have_analyze && echo libpcap || echo LLVM 19)"
}

bench_settled() { [ $bench = no ] || [ "$(cat $bench_stamp 2>/dev/null)" = "$(key)" ]; }

have_isolate() { have clang && [ -f /usr/include/bpf/bpf_helpers.h ] && have ip && have tc; }

# The same for what `sluice isolate` needs.
isolate_settled() {
    { [ $isolate = no ] || have_isolate; } && return
    [ $isolate = try ] && [ "$(cat $isolate_stamp 2>/dev/null)" = "$(key)" ] && say "going on without \`sluice isolate\`"
}

# Prints the first Python of version 3.11 or later that can make virtual environments.
find_python() {
    local python
    for python in ${PYTHON:-python3.11 python3 python3.12 python3.13 python3.14}; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' &>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# Whether the environment works and was made at this place (one that was moved starts another's pip).
venv_is_good() {
    [ "$(set +u; . $venv/bin/activate 2>/dev/null && echo "$VIRTUAL_ENV")" = "$PWD/$venv" ] &&
        $venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

make_venv() {
    local python
    if ! python=$(find_python); then
        can_apt || die "no Python 3.11 or later that has venv: install python3-venv, or set PYTHON"
        apt_install python3 python3-venv || die "could not install python3 and python3-venv"
        python=$(find_python) || die "this system's Python is older than 3.11: set PYTHON to a later one"
    fi
    say "making $venv with $("$python" --version)"
    quietly "$python" -m venv --clear $venv || die "could not make $venv"
}

# Whether the compiler (a command, which may have arguments) makes a program of the C text.
builds() {
    local cc=$1 text=$2 dir status=0
    shift 2
    dir=$(mktemp -d)
    # shellcheck disable=SC2086  # $cc is a command with its arguments
    printf '%s\n' "$text" | $cc "$@" -x c - -o "$dir/out" >/dev/null 2>&1 || status=$?
    rm -rf "$dir"
    return $status
}

can_compile() {
    builds "$1" $'#include <stdint.h>\n#include <stdio.h>\nint main(void) { return puts("") < 0; }'
}

can_fuzz() {
    builds clang 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 99; }' \
        -fsanitize=fuzzer,address,undefined
}

get_compiler() {
    local zig="$venv/bin/python -m ziglang cc"
    if [ -n "${CC:-}" ] || can_compile gcc || can_compile clang; then return; fi
    if can_apt && apt_install gcc libc6-dev && can_compile gcc; then return; fi
    can_compile "$zig" && return
    say "no gcc and no clang: installing the compiler of the ziglang wheel (large)"
    if ! pip_install --require-hashes -r requirements-zig.lock || ! can_compile "$zig"; then
        die "no C compiler, and that of the wheel does not work: install gcc or clang, or set CC"
    fi
}

# Whether a library is there by one of the names by which sluice/runtime/function/digest.h looks for it.
have_libcrypto() {
    local name
    for name in libcrypto.so.3 libcrypto.so.1.1 libcrypto.so; do
        $venv/bin/python -c "import ctypes; ctypes.CDLL('$name')" 2>/dev/null && return
    done
    return 1
}

get_libcrypto() {
    have_libcrypto && return
    if can_apt; then
        apt_install libssl3 || apt_install libssl3t64 || true # the name that Ubuntu 24.04 has for it
    fi
    have_libcrypto || say "there is no libcrypto, with which \`sluice flows\` hashes and QUIC packets are opened: install OpenSSL (Debian: libssl3)"
}

# llhttp, which httplog reads with: the C files of the source distribution of its Python package, which is not installed.
get_parsers() {
    local vendor=sluice/functions/vendor/llhttp work status=0
    work=$(mktemp -d)
    quietly $venv/bin/python -m pip download -q --no-input --disable-pip-version-check --no-deps --no-binary :all: \
        --no-build-isolation --require-hashes -r requirements-parsers.lock -d "$work" &&
        tar -xzf "$work"/llhttp-*.tar.gz -C "$work" && mkdir -p $vendor &&
        cp "$work"/llhttp-*/LICENSE "$work"/llhttp-*/lib/*.[ch] $vendor || status=$?
    rm -rf "$work"
    [ $status -eq 0 ] || say "could not get llhttp, with which httplog reads HTTP; going on without"
}

get_sanitizers() {
    if can_fuzz && have llvm-symbolizer; then return; fi
    if can_apt; then
        apt_install clang llvm || true
        can_fuzz || apt_install "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev" || true
    fi
    can_fuzz
}

get_tshark() {
    if can_apt && apt_install tshark nmap traceroute python3-pyftpdlib && have tshark; then return; fi
    say "no tshark, with which tests compare: install it (Debian: tshark); going on without"
    key >$tshark_stamp
}

get_isolate() {
    local before old
    before=$(key)
    if can_apt && apt_install clang libbpf-dev iproute2 ethtool && have_isolate; then
        for old in $stamp $tools_stamp; do # a clang that came with it changes nothing else
            [ "$(cat $old 2>/dev/null)" != "$before" ] || key >$old
        done
        return
    fi
    local missing="no clang, libbpf or iproute2, which \`sluice isolate\` needs: install clang, libbpf-dev and iproute2 (Debian)"
    [ $isolate = try ] || die "$missing"
    say "$missing; going on without"
    key >$isolate_stamp
}

get_analyze() {
    have_libpcap || { can_apt && apt_install libpcap0.8; } ||
        say "there is no libpcap: tests that check \`sluice analyze\` by running programs will be skipped"
    if have_analyze || { can_apt && apt_install llvm-19-dev clang-19 g++ make && have_analyze; }; then
        have_libpcap || key >$analyze_stamp
        return
    fi
    [ $analyze = try ] || die "no LLVM 19, which \`sluice analyze\` needs: install llvm-19-dev, clang-19, g++ and make"
    say "no LLVM 19, which \`sluice analyze\` needs: install llvm-19-dev, clang-19, g++ and make; going on without"
    key >$analyze_stamp
}

# Libraries to compare with, and what makes traces of real traffic. Each for itself: what one machine lacks is skipped.
get_bench() {
    local wanted package missing=()
    for wanted in libpcap-dev:/usr/include/pcap.h libnids-dev:/usr/include/nids.h libndpi-dev:/usr/include/ndpi/ndpi_api.h \
        libhyperscan-dev:/usr/include/hs/hs.h nginx-light:nginx apache2-utils:ab tcpdump:tcpdump ethtool:ethtool \
        iproute2:ip valgrind:valgrind; do
        package=${wanted%%:*}
        [ -e "${wanted#*:}" ] || have "${wanted#*:}" || { can_apt && apt_install "$package"; } || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] || say "\`make bench\` goes without ${missing[*]} (Debian's names)"
    key >$bench_stamp
}

set_up() {
    rm -f $stamp $tools_stamp
    venv_is_good || make_venv
    say "installing Sluice into $venv"
    pip_install --require-hashes -r requirements-build.lock || die "could not install requirements-build.lock"
    pip_install --no-build-isolation --no-deps -e . || die "could not install Sluice"
    get_compiler
    get_libcrypto
    get_parsers
    have make || { can_apt && apt_install make; } || say "there is no make: install it to use the Makefile"
    key >$stamp
}

# Tests with real SCTP traffic are skipped without it.
get_usrsctp() {
    [ -f /usr/include/usrsctp.h ] || { can_apt && apt_install libusrsctp-dev; } ||
        say "there is no libusrsctp-dev: tests with real SCTP traffic will be skipped"
}

# Tests of detection are skipped without them: Hyperscan (or Vectorscan, which has the same header), PCRE2, nDPI and its reader.
get_detect() {
    local wanted package missing=()
    for wanted in libhyperscan-dev:/usr/include/hs/hs.h libpcre2-dev:/usr/include/pcre2.h \
        libndpi-dev:/usr/include/ndpi/ndpi_api.h libndpi-bin:ndpiReader; do
        package=${wanted%%:*}
        [ -e "${wanted#*:}" ] || have "${wanted#*:}" || { can_apt && apt_install "$package"; } || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] || say "there is no ${missing[*]}: tests of detection will be skipped"
}

# Tests of formats and frames are skipped without these packages.
get_frames() {
    pip_install --no-deps --require-hashes -r requirements-frames.lock ||
        say "could not install requirements-frames.lock: tests of Parquet, Arrow, DuckDB, pandas and polars will be skipped"
}

# Tests of the report's page are skipped without Chromium and playwright.
browser_settled() { [ $browser = no ] || { have chromium && $venv/bin/python -c 'import playwright' 2>/dev/null; }; }
get_browser() {
    have chromium || { can_apt && apt_install chromium fonts-dejavu-core; } ||
        say "there is no Chromium: tests of the report's page will be skipped"
    pip_install --no-deps --require-hashes -r requirements-browser.lock ||
        say "could not install requirements-browser.lock: tests of the report's page will be skipped"
}

# The test of examples/notebook is skipped without these packages.
notebook_settled() { [ $notebook = no ] || $venv/bin/python -c 'import nbclient, ipykernel, matplotlib' 2>/dev/null; }
get_notebook() {
    pip_install --no-deps --require-hashes -r requirements-notebook.lock ||
        say "could not install requirements-notebook.lock: the test of examples/notebook will be skipped"
}

# `make site` needs it.
site_settled() { [ $site = no ] || $venv/bin/python -c 'import material, mkdocs' 2>/dev/null; }
get_site() {
    pip_install --no-deps --require-hashes -r requirements-site.lock || die "could not install requirements-site.lock"
}

# `-i dpdk:DEVICE` needs it.
dpdk_settled() { [ $dpdk = no ] || { have pkg-config && pkg-config --exists libdpdk; }; }
get_dpdk() {
    can_apt && apt_install dpdk-dev pkg-config && dpdk_settled ||
        die "no DPDK, which \`-i dpdk:DEVICE\` needs: install dpdk-dev and pkg-config (Debian)"
}

# `filelog` has no types of files without it.
get_libmagic() {
    $venv/bin/python -c "import ctypes; ctypes.CDLL('libmagic.so.1')" 2>/dev/null || { can_apt && apt_install libmagic1; } ||
        say "there is no libmagic, by which filelog types files: install it (Debian: libmagic1)"
}

# `httplog` does not read HTTP/2 without it.
get_libnghttp2() {
    $venv/bin/python -c "import ctypes; ctypes.CDLL('libnghttp2.so.14')" 2>/dev/null || { can_apt && apt_install libnghttp2-14; } ||
        say "there is no libnghttp2, with which httplog reads HTTP/2: install it (Debian: libnghttp2-14)"
}

# `httplog` does not read HTTP/3 without it. Its name depends on its version: 1.x, or 0.8.
get_libnghttp3() {
    local name
    for name in libnghttp3.so.9 libnghttp3.so.3; do
        $venv/bin/python -c "import ctypes; ctypes.CDLL('$name')" 2>/dev/null && return
    done
    { can_apt && { apt_install libnghttp3-9 || apt_install libnghttp3-3; }; } ||
        say "there is no libnghttp3, with which httplog reads HTTP/3: install it (Debian 13: libnghttp3-9; Debian 12: libnghttp3-3)"
}

# Instructions are not counted without it.
get_valgrind() {
    have valgrind || { can_apt && apt_install valgrind; } ||
        say "there is no valgrind: tests that count instructions will be skipped"
}

# What some tests run to have real traffic; they say so where it is missing. Only on a machine of CI: a server that is
# installed may also be started.
get_servers() {
    local missing=()
    [ "${CI:-}" = true ] && can_apt || return 0
    have nginx || missing+=(nginx-light)
    have curl || missing+=(curl)
    have haproxy || missing+=(haproxy)
    have h2load || missing+=(nghttp2-client)
    [ -f /usr/include/nghttp2/nghttp2.h ] || missing+=(libnghttp2-dev)
    have memcached || missing+=(memcached)
    have memccat || missing+=(libmemcached-tools)
    [ -f /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
    have openssl || missing+=(openssl)
    have redis-server || missing+=(redis-server)
    [ -f /usr/include/hiredis/hiredis.h ] || missing+=(libhiredis-dev)
    have ip || missing+=(iproute2)
    have ethtool || missing+=(ethtool)
    have tcpdump || missing+=(tcpdump)
    have zstd || missing+=(zstd)
    have lz4 || missing+=(lz4)
    have xz || missing+=(xz-utils)
    compgen -G '/usr/lib/*/libxdp.so.1' >/dev/null || missing+=(libxdp1)
    have_libpcap || missing+=(libpcap0.8)
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}" || say "could not install ${missing[*]}; going on without"
}

get_tools() {
    get_servers
    say "installing what tests and lint need (requirements-dev.lock; large, some minutes on a slow line) into $venv"
    pip_install --require-hashes -r requirements-dev.lock || die "could not install requirements-dev.lock"
    get_usrsctp
    get_detect
    get_frames
    get_libmagic
    get_libnghttp2
    get_libnghttp3
    get_valgrind
    key >$tools_stamp
}

# Before anything is changed: a CC that does not work is a mistake, not something to get round.
if [ -n "${CC:-}" ] && ! is_set_up; then
    can_compile "$CC" || die "CC='$CC' does not compile and link a C program; set it to a C compiler, or unset it"
fi
if is_set_up && tools_settled && sanitizers_settled && tshark_settled && bench_settled && isolate_settled &&
    analyze_settled && browser_settled && notebook_settled && site_settled && dpdk_settled; then exit; fi
if have flock; then
    exec 9<. # one at a time in a checkout
    flock 9
fi
is_set_up || set_up
tools_settled || get_tools
if ! sanitizers_settled; then
    say "checking for clang with libFuzzer and sanitizers"
    before=$(key)
    if get_sanitizers; then found=yes; else found=no; fi
    if [ "$(key)" != "$before" ]; then # a clang came with them
        key >$stamp
        key >$tools_stamp
    fi
    echo "$found $(key)" >$sanitizers_stamp
    if [ $found = no ]; then
        missing="no clang with libFuzzer and sanitizers: install clang, its libclang-rt-*-dev and llvm"
        [ $sanitizers = try ] || die "$missing"
        say "$missing; going on without"
    fi
fi
tshark_settled || get_tshark
analyze_settled || get_analyze
bench_settled || get_bench
isolate_settled || get_isolate
browser_settled || get_browser
notebook_settled || get_notebook
site_settled || get_site
dpdk_settled || get_dpdk
say "done"
