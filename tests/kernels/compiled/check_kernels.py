#!/usr/bin/env python3
"""Checks nvcc's result for one file of kernels against its section of budgets.txt; prints a sentence per violation.

    python3 tests/kernels/compiled/check_kernels.py --library build/cuda/kernels/libkinora_kernels.a --file row_norm \\
        --architecture sm_90a --occupancy build/cuda/tests/kernels/compiled/occupancy \\
        --cuobjdump …/cuobjdump --nvdisasm …/nvdisasm [--measure | --markdown | --expect FILE]

--measure prints each kernel as a row of budgets.txt, --markdown as a row of docs/performance.md; neither fails if a row
is missing. --expect FILE contains one pattern per expected violation; there must be no others. Exit status: 0, 1 after a
violation, 77 if the disassembler is not installed.
"""

import argparse
import fnmatch
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from compiled import Disassembler, Kernel

SKIPPED = 77
WARP = 32
COLUMNS = ("threads", "dynamic", "registers", "shared", "blocks", "loads", "stores", "local")


@dataclass
class Budget:
    """A row of budgets.txt; None for '-'."""

    pattern: str
    line: int
    threads: int
    dynamic: int
    registers: int
    shared: int
    blocks: int
    loads: int | None
    stores: int | None
    local: int


def read_budgets(path: Path, section: str) -> list[Budget]:
    budgets, current = [], None
    for number, text in enumerate(path.read_text().splitlines(), 1):
        words = text.split("#")[0].split()
        if len(words) == 1 and words[0].startswith("["):
            current = words[0].strip("[]")
        elif words and current == section:
            if len(words) != 1 + len(COLUMNS):
                sys.exit(f"{path}:{number}: {len(words)} columns; needed: kernel {' '.join(COLUMNS)}")
            values = [None if word == "-" else int(word) for word in words[1:]]
            budgets.append(Budget(words[0], number, *values))
    return budgets


def budget_of(kernel: Kernel, budgets: list[Budget]) -> Budget | None:
    return next((b for b in budgets if fnmatch.fnmatchcase(kernel.name, b.pattern)), None)


def blocks_of(occupancy: Path, architecture: str, kernels: list[tuple[Kernel, int, int]]) -> list[int]:
    """Returns blocks per multiprocessor for kernels with (threads, bytes of dynamic shared memory)."""
    number = architecture.removeprefix("sm_").rstrip("af")
    lines = [f"{number} {threads} {k.registers} {k.shared} {dynamic}" for k, threads, dynamic in kernels]
    result = subprocess.run([occupancy], input="\n".join(lines), check=True, capture_output=True, text=True)
    return [int(word) for word in result.stdout.split()]


def violations(kernel: Kernel, budget: Budget, blocks: int) -> list[str]:
    found = []
    if kernel.local > budget.local:
        found.append(f"{kernel.local} bytes of local memory, at most {budget.local} are allowed: registers spill, or an "
                     "array is indexed at run time")
    for what in ("registers", "shared"):
        if (value := getattr(kernel, what)) > (allowed := getattr(budget, what)):
            found.append(f"{value} {'bytes of shared memory' if what == 'shared' else what}, at most {allowed} are allowed")
    if blocks < budget.blocks:
        found.append(f"{blocks} blocks of {budget.threads} threads per multiprocessor, at least {budget.blocks} are needed")
    for what in ("loads", "stores"):
        accesses, allowed = getattr(kernel, what), getattr(budget, what)
        if allowed is None:
            continue
        if (narrow := kernel.narrow(accesses)) > allowed:
            found.append(f"{narrow} {what} below 128 bits ({sorted(set(accesses))}), at most {allowed} are allowed")
        if not kernel.wide(accesses):
            found.append(f"no {what} of 128 bits")
    return found


def check(kernels: list[Kernel], budgets: list[Budget], file: str, args: argparse.Namespace) -> list[str]:
    if not kernels:
        return [f"{file} has no kernel for {args.architecture}"]
    found, listed = [], []
    for kernel in kernels:
        if budget := budget_of(kernel, budgets):
            listed.append((kernel, budget))
        else:
            found.append(f"{kernel.name} has no row in section [{file}] of {args.budgets.name}")
    blocks = blocks_of(args.occupancy, args.architecture, [(k, b.threads, b.dynamic) for k, b in listed])
    for (kernel, budget), count in zip(listed, blocks, strict=True):
        found += [f"{kernel.name}: {what} ({args.budgets.name}:{budget.line})"
                  for what in violations(kernel, budget, count)]
    used = {id(b) for _, b in listed}
    found += [f"no kernel of {file} is {b.pattern} ({args.budgets.name}:{b.line})" for b in budgets if id(b) not in used]
    return [f"{file}, {args.architecture}: {what}" for what in found]


def unlike(found: list[str], patterns: list[str]) -> list[str]:
    """Returns findings that were not expected, and expected ones that were not found."""
    matches = [[fnmatch.fnmatchcase(what, f"*{pattern}*") for pattern in patterns] for what in found]
    wrong = [f"not expected: {what}" for what, row in zip(found, matches, strict=True) if not any(row)]
    missed = [i for i in range(len(patterns)) if not any(row[i] for row in matches)]
    return wrong + [f"not seen: {patterns[i]}" for i in missed]


def show(kernels: list[Kernel], budgets: list[Budget], file: str, args: argparse.Namespace) -> None:
    """Prints one line per kernel, ordered by name."""
    shapes = []
    for kernel in sorted(kernels, key=lambda k: k.name):
        budget = budget_of(kernel, budgets)
        shapes.append((kernel, budget.threads if budget else 256, budget.dynamic if budget else 0))
    for (k, threads, dynamic), blocks in zip(shapes, blocks_of(args.occupancy, args.architecture, shapes), strict=True):
        if args.markdown:
            warps = blocks * threads // WARP
            shared = f"{k.shared} + {dynamic}" if dynamic else k.shared
            print(f"| {file} | `{k.name}` | {threads} | {k.registers} | {shared} | {blocks} | {warps} | "
                  f"{k.wide(k.loads)} / {k.narrow(k.loads)} | {k.wide(k.stores)} / {k.narrow(k.stores)} |")
        else:
            print(f"{k.name:58} {threads:4} {dynamic:6} {k.registers:3} {k.shared:5} {blocks:2} "
                  f"{k.narrow(k.loads):3} {k.narrow(k.stores):3} {k.local:3}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--file", required=True, help="the kernels' file without its ending")
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--occupancy", type=Path, required=True)
    parser.add_argument("--cuobjdump", type=Path, required=True)
    parser.add_argument("--nvdisasm", type=Path, required=True)
    parser.add_argument("--budgets", type=Path, default=Path(__file__).parent / "budgets.txt")
    parser.add_argument("--expect", type=Path)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    for tool in (args.cuobjdump, args.nvdisasm):
        if not tool.exists():
            print(f"skipped: {tool.name} is not installed: scripts/install-deps --cuda=nvcc")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        member = Path(folder) / f"{args.file}.cu.o"
        with member.open("wb") as out:
            subprocess.run(["ar", "p", args.library, member.name], check=True, stdout=out)
        if member.stat().st_size == 0:
            sys.exit(f"{args.library} has no {member.name}: it is not built, or not anew")
        kernels = Disassembler(args.cuobjdump, args.nvdisasm).kernels(member, args.architecture)
    budgets = read_budgets(args.budgets, args.file)
    if args.measure or args.markdown:
        show(kernels, budgets, args.file, args)
        return 0
    found = check(kernels, budgets, args.file, args)
    if args.expect:
        found = unlike(found, args.expect.read_text().splitlines())
    print("\n".join(found) if found else f"{args.file}, {args.architecture}: {len(kernels)} kernels, all as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
