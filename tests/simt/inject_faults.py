#!/usr/bin/env python3
"""Injects the faults of injected_faults.py into the CUDA backend and reports which test build detects each.

    python3 tests/simt/inject_faults.py                     # all faults, three builds
    python3 tests/simt/inject_faults.py --build tsan --only barrier-between-rows
    python3 tests/simt/inject_faults.py --out table         # the table of docs/cuda-faults.md

Run it by hand; CI does not. On two cores it takes five minutes in addition to the builds, which compile the engine
three times. In a copy of the working tree (build/faults), each fault stands beside the correct code, behind a switch
that the program reads at startup. Each build, plain (emulated), ASan with UBSan (emulated-asan) and TSan
(emulated-tsan), is therefore compiled once, and one fault at a time is on. First, every test in the table runs with all
faults off and must pass. Then each fault is on for the tests that should detect it. Results:

    test       a test's expectation failed                 device   the simulated device reported the mistake
    asan/tsan  the sanitizer reported it                   segv     a segmentation fault: an access outside an
               allocation or a misaligned vector           crash    another abnormal end: a CHECK, the heap
    hang       longer than --timeout
    -          missed                                      n/a      none of the fault's tests runs in this build

Exits with status 1 if all builds miss a fault, unless the table gives the reason.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from injected_faults import FAULTS, NOT_FOR_TSAN  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "faults"
PRESETS = {"plain": "emulated", "asan": "emulated-asan", "tsan": "emulated-tsan"}
SWITCH = "injected_fault.h"
HEADER = """#pragma once
#include <cstdlib>
inline const int injected_fault = [] {
  const char* const number = std::getenv("KINORA_INJECTED_FAULT");
  return number == nullptr ? 0 : std::atoi(number);
}();
"""
# The first pattern that matches the output of a failed test gives the result.
SIGNS = [
    ("segv", re.compile(r"Sanitizer: (SEGV)")),
    ("tsan", re.compile(r"WARNING: ThreadSanitizer: ([a-z -]+)")),
    ("asan", re.compile(r"ERROR: AddressSanitizer: ([a-z-]+)")),
    ("asan", re.compile(r"runtime error: (.{1,40})")),
    ("device", re.compile(r"(the CUDA device is lost[^\n]*|thread \d+ of block [^\n]*)")),
    ("device", re.compile(r"Which is: (719)")),
    ("crash", re.compile(r"((?:CHECK|check) failed.*)")),
]


def switched(source, faults):
    """The source with its faults, given by number, inserted beside the correct code."""
    places = []
    for number, fault in faults.items():
        found = [m.start() for m in re.finditer(re.escape(fault.text), source)]
        if len(found) != fault.of:
            sys.exit(f"{fault.name}: its text occurs {len(found)} times in {fault.file}, not {fault.of}")
        places.append((found[fault.nth - 1], number, fault))
    for at, number, fault in sorted(places, reverse=True, key=lambda place: place[0]):
        on = f"(injected_fault == {number})"
        if "INJECTED" in fault.fault:
            code = fault.fault.replace("INJECTED", on)
        elif fault.text.endswith(";"):
            code = f"{{ if {on} {{ {fault.fault} }} else {{ {fault.text} }} }}"
        else:
            code = f"({on} ? ({fault.fault}) : ({fault.text}))"
        source = source[:at] + code + source[at + len(fault.text):]
    return source


def write_if_changed(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def prepare_tree():
    """Copies the working tree with all faults inserted and off. Unchanged files keep their modification times, so a
    second run compiles only changes."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout.split("\n")
    changed = {}
    for file in {f.file for f in FAULTS}:
        faults = {number: f for number, f in enumerate(FAULTS, 1) if f.file == file}
        changed[file] = switched((ROOT / file).read_text(), faults)
    for name in filter(None, listed):
        path, copy = ROOT / name, TREE / name
        if name in changed or not path.is_file():
            continue
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    for name, source in changed.items():
        first = source.index("#include")
        write_if_changed(TREE / name, f'{source[:first]}#include "{SWITCH}"\n{source[first:]}')
    write_if_changed(TREE / SWITCH, HEADER)
    if (ROOT / "third_party").exists() and not (TREE / "third_party").exists():
        (TREE / "third_party").symlink_to(ROOT / "third_party")


def build(preset, targets):
    def quietly(*command):
        done = subprocess.run(["nice", *command], cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout[-6000:]}")

    quietly("cmake", "--preset", preset, "-DKINORA_SERVER=OFF")
    quietly("cmake", "--build", f"build/{preset}", "-j2", "--target", *targets)


def binary_of(preset, target):
    return next(p for p in (TREE / "build" / preset / "tests").glob(f"*/{target}") if os.access(p, os.X_OK))


def outcome_of(preset, test, number, timeout):
    """(None or the result, the output that shows it)."""
    target, _, pattern = test.partition(" ")
    environment = dict(os.environ, KINORA_INJECTED_FAULT=str(number),
                       TSAN_OPTIONS="halt_on_error=1", ASAN_OPTIONS="detect_leaks=0",
                       UBSAN_OPTIONS="print_stacktrace=0")
    command = ["nice", str(binary_of(preset, target)), "--gtest_fail_fast"]
    if pattern:
        command.append(f"--gtest_filter={pattern}")
    try:
        done = subprocess.run(command, cwd=TREE / "build" / preset, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout)
    except subprocess.TimeoutExpired:
        return "hang", f"{target}: longer than {timeout} s"
    if done.returncode == 0:
        if "[  PASSED  ] 0 tests" in done.stdout:
            sys.exit(f"{test}: no such test")
        return None, ""
    for sign, words in SIGNS:
        if match := words.search(done.stdout):
            return sign, f"{target}: {match.group(1).strip()}"
    failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
    if failed and done.returncode == 1:
        return "test", f"{target}: {failed.group(1).rstrip(',')}"
    if done.returncode == -signal.SIGSEGV:
        return "segv", f"{target}: SEGV"
    return "crash", f"{target}: status {done.returncode}"


def tests_of(build_name, fault):
    return [t for t in fault.tests if build_name != "tsan" or t.partition(" ")[0] not in NOT_FOR_TSAN]


def seen_by(build_name, fault, number, timeout):
    for test in tests_of(build_name, fault):
        saw, words = outcome_of(PRESETS[build_name], test, number, timeout)
        if saw:
            return saw, words
    return ("-" if tests_of(build_name, fault) else "n/a"), ""


def row_of(fault, results, builds):
    cells = [f"`{fault.name}`", fault.what] + [results[b][0] if b in results else "" for b in builds]
    return "| " + " | ".join(cells) + " |"


def report(faults, results, builds):
    lines = ["| fault | description | " + " | ".join(builds) + " |", "|---" * (2 + len(builds)) + "|"]
    family = None
    for fault in faults:
        if fault.family != family:
            family = fault.family
            lines.append(f"| **{family}** |" + " |" * (1 + len(builds)))
        lines.append(row_of(fault, results[fault.name], builds))
    totals = []
    for b in builds:
        run = [results[f.name][b][0] for f in faults if results[f.name][b][0] != "n/a"]
        totals.append(f"**{len(run) - run.count('-')} of {len(run)}**")
    lines.append("| | **detected** | " + " | ".join(totals) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", help="a fault's name or its prefix; repeatable")
    parser.add_argument("--build", action="append", choices=PRESETS, help="a build; repeatable; default: all three")
    parser.add_argument("--out", type=Path, help="a file for the Markdown table")
    parser.add_argument("--timeout", type=int, default=300, help="seconds per test")
    options = parser.parse_args()
    builds = options.build or list(PRESETS)
    numbers = {f.name: n for n, f in enumerate(FAULTS, 1)}
    faults = [f for f in FAULTS if not options.only or any(f.name.startswith(o) for o in options.only)]
    if not faults:
        sys.exit("--only: no fault has that name")
    prepare_tree()
    results = {f.name: {} for f in faults}
    for name in builds:
        tests = sorted({t for f in faults for t in tests_of(name, f)})
        if tests:  # without a target, cmake would build everything
            build(PRESETS[name], sorted({t.partition(" ")[0] for t in tests}))
        for test in tests:
            saw, words = outcome_of(PRESETS[name], test, 0, options.timeout)
            if saw:
                sys.exit(f"{name}: {test} fails with all faults off: {saw}, {words}")
        for fault in faults:
            results[fault.name][name] = seen_by(name, fault, numbers[fault.name], options.timeout)
            print(f"{name:5} {fault.name:38}", *results[fault.name][name], flush=True)
    table = report(faults, results, builds)
    print(table)
    if options.out:
        options.out.write_text(table)
    saw = {f.name: {r[0] for r in results[f.name].values()} - {"n/a"} for f in faults}
    missed = [f.name for f in faults if not f.unseen and saw[f.name] == {"-"}]
    if missed:
        sys.exit("missed by all builds: " + ", ".join(missed))


if __name__ == "__main__":
    main()
