#!/usr/bin/env bash
# Builds and runs every harness fuzz/fuzz_*.c, or those named as arguments (fuzz_pcap, ...), one after the
# other for FUZZ_SECONDS (default 600) each. A harness names the sources it needs besides itself in its first
# line: `// links: sluice/runtime/io/*.c ...` (but for those that it includes), or the program that writes them and
# first inputs: `// made by: fuzz/make_stack.py`. Corpora, logs and crashing inputs are under .fuzz/ (or FUZZ_FOLDER).
# Fails if a harness does not build or finds something, after all have run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shopt -s nullglob

seconds=${FUZZ_SECONDS:-600}
folder=${FUZZ_FOLDER:-.fuzz}
harnesses=(fuzz/fuzz_*.c)
if [ $# -gt 0 ]; then
    harnesses=()
    for name in "$@"; do
        [ -f "fuzz/$name.c" ] || { echo "fuzz: there is no fuzz/$name.c" >&2; exit 2; }
        harnesses+=("fuzz/$name.c")
    done
fi
[ ${#harnesses[@]} -gt 0 ] || { echo "fuzz: there is no harness fuzz/fuzz_*.c" >&2; exit 2; }

flags=(-std=gnu11 -g -O1 -fno-omit-frame-pointer -Wall -Wextra
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
    -I sluice/runtime -I sluice/runtime/function -I sluice/runtime/native -I tests/runtime)
mkdir -p "$folder"/{bin,log,crashes}
failed=()
for harness in "${harnesses[@]}"; do
    name=$(basename "$harness" .c)
    corpus=$folder/corpus/$name
    mkdir -p "$corpus"
    links=()
    for word in $(sed -n '1s|^// links:||p' "$harness"); do
        grep -q "^#include \"../$word\"" "$harness" || links+=("$word")
    done
    made=$folder/made/$name
    maker=$(sed -n '1s|^// made by: *||p' "$harness")
    if [ -n "$maker" ] && ! .venv/bin/python "$maker" "$made" "$corpus"; then
        echo "fuzz: $maker failed"
        failed+=("$name")
        continue
    fi
    [ ! -f "$made/links" ] || mapfile -t links <"$made/links" # C files that functions are linked with
    if ! clang "${flags[@]}" -I "$made" -o "$folder/bin/$name" "$harness" "${links[@]}"; then
        echo "fuzz: $name does not build"
        failed+=("$name")
        continue
    fi
    echo "fuzz: $name for $seconds s"
    # -timeout is by the clock: a busy machine can keep a process of low priority waiting for 10 s
    if ! "$folder/bin/$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$folder/crashes/$name-" "$corpus" >"$folder/log/$name" 2>&1; then
        tail -n 40 "$folder/log/$name"
        echo "fuzz: $name found something; inputs in $folder/crashes, log in $folder/log/$name"
        failed+=("$name")
    else
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log/$name")
        echo "fuzz: $name clean, $runs runs, $(find "$corpus" -type f | wc -l) inputs in its corpus"
    fi
done
[ ${#failed[@]} -eq 0 ] || { echo "fuzz: failed: ${failed[*]}"; exit 1; }
