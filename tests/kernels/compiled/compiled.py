"""Reads nvcc's results for kernels from an object file: registers, shared memory, local memory, accesses to global
memory.

Needs cuobjdump and nvdisasm of CUDA's toolkit (scripts/install-deps --cuda=nvcc) and c++filt.
"""

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

WIDE_BITS = 128
# From this architecture on, cuobjdump counts the driver's own shared memory for kernels that use any.
RESERVED_SHARED, RESERVED_SINCE = 1024, 90


@dataclass
class Kernel:
    name: str  # without namespaces and parameters; types as f32, bf16; enumerators as their numbers
    registers: int = 0
    shared: int = 0  # bytes, static
    local: int = 0  # bytes of stack, and accesses to local memory: spilled registers, or arrays without registers
    loads: list[int] = field(default_factory=list)  # bits, one per instruction that reads global memory
    stores: list[int] = field(default_factory=list)

    def wide(self, accesses: list[int]) -> int:
        return sum(bits >= WIDE_BITS for bits in accesses)

    def narrow(self, accesses: list[int]) -> int:
        return sum(bits < WIDE_BITS for bits in accesses)


def short_name(demangled: str) -> str:
    """`void a::(anonymous namespace)::F<float, (a::Kind)2>(a::G)` becomes F<f32,2>."""
    name = demangled.removeprefix("void ")
    name = re.sub(r"\((?:\w+::)*\w+\)(-?\d+)", r"\1", name)
    name = re.sub(r"\(anonymous namespace\)::|\b[A-Za-z_]\w*::", "", name)
    for long, short in (("__nv_bfloat16", "bf16"), ("float", "f32"), ("unsigned short", "u16"), ("unsigned int", "u32")):
        name = re.sub(rf"\b{long}\b", short, name)
    return name.split("(")[0].replace(" ", "")


class Disassembler:
    def __init__(self, cuobjdump: Path, nvdisasm: Path):
        self.cuobjdump = cuobjdump
        self.environment = {**os.environ, "PATH": f"{nvdisasm.parent}:{os.environ['PATH']}"}

    def run(self, architecture: str, what: str, file: Path) -> str:
        command = [self.cuobjdump, "--gpu-architecture", architecture, what, file]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout

    def kernels(self, file: Path, architecture: str) -> list[Kernel]:
        """Returns all kernels in `file` that were compiled for `architecture`, e.g. sm_90a."""
        found = self.resources(file, architecture)
        function = None
        for line in self.run(architecture, "--dump-sass", file).splitlines():
            if match := re.match(r"\s*Function : (\S+)", line):
                function = found.get(match[1])
            elif function and (match := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", line)):
                count(match[1], function)
        return list(found.values())

    def resources(self, file: Path, architecture: str) -> dict[str, Kernel]:
        text = self.run(architecture, "--dump-resource-usage", file)
        rows = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", text)
        reserved = RESERVED_SHARED if int(re.sub(r"\D", "", architecture)) >= RESERVED_SINCE else 0
        names = subprocess.run(["c++filt"], input="\n".join(row[0] for row in rows), check=True, capture_output=True,
                               text=True).stdout.splitlines()
        found = {}
        for (mangled, registers, stack, shared, local), name in zip(rows, names, strict=True):
            found[mangled] = Kernel(short_name(name), int(registers), max(0, int(shared) - reserved),
                                    int(stack) + int(local))
        return found


def count(instruction: str, kernel: Kernel) -> None:
    operation, *modifiers = instruction.split(".")
    widths = [int(m[1]) for m in (re.fullmatch(r"[US]?(8|16|32|64|128|256)", m) for m in modifiers) if m]
    bits = widths[0] if widths else 32
    if operation in ("LDL", "STL"):
        kernel.local += bits // 8
    elif operation in ("LDG", "LD", "LDGSTS"):  # LD and ST: the compiler could not prove that the memory is global
        kernel.loads.append(bits)
    elif operation in ("STG", "ST"):
        kernel.stores.append(bits)
