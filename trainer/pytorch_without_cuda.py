"""Make an installed PyTorch of PyPI do without CUDA: `python3 pytorch_without_cuda.py`, at the image's build.

PyPI's torch for Linux computes on CPUs as well, but is linked against the kernels for GPUs (libtorch_cuda.so, 1 GB)
and NVIDIA's libraries (another 4 GB), which the loader wants to find although a run on CPUs calls nothing in them. A
library of stand-ins takes their place: it has each symbol that the rest of torch names, and whoever calls one is told.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
from pathlib import Path

LIBRARIES = Path(sysconfig.get_path("purelib"), "torch", "lib")
STAND_IN = LIBRARIES / "libtorch_cuda.so"
# No other library than libtorch_cuda.so is linked with these libraries, or loads them at run time.
NEEDED_BY_IT = ("libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so")
# NVIDIA's libraries with which libtorch_python.so is also linked. Small libraries of NVIDIA that torch calls when it
# starts are not replaced.
OF_NVIDIA = ("libcudnn.so.9", "libcusparseLt.so.0", "libcufile.so.0")
SYMBOLS_OF_NVIDIA = re.compile("cudnn|cusparseLt|cuFile")

ANSWER = r"""
#include <stdio.h>
#include <stdlib.h>
void without_cuda(const char *symbol) {
    fprintf(stderr, "torch: %s: this image is for CPUs; use one built with ACCELERATOR=cuda\n", symbol);
    abort();
}
/* c10d::get_gil_checker(): where torch, at its start, leaves a function for NCCL's watchdog. */
void **GIL_CHECKER(void) {
    static void *function;
    return &function;
}
"""
GIL_CHECKER = "_ZN4c10d15get_gil_checkerEv"


def main() -> None:
    defined: set[str] = set()
    for library in (STAND_IN, *(LIBRARIES / name for name in NEEDED_BY_IT)):
        defined |= symbols("--defined-only", library)
        library.unlink()
    rest = sorted(LIBRARIES.glob("*.so"))
    wanted = {name for library in rest for name in symbols("--undefined-only", library)}
    compile_stand_in({name for name in wanted if name in defined or SYMBOLS_OF_NVIDIA.match(name)} - {GIL_CHECKER})
    for name in OF_NVIDIA:
        (LIBRARIES / name).symlink_to(STAND_IN.name)


def symbols(which: str, library: Path) -> set[str]:
    listing = subprocess.run(["nm", "-D", which, str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listing.splitlines()}


def compile_stand_in(names: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        answer, table = Path(folder, "answer.c"), Path(folder, "table.s")
        answer.write_text(ANSWER.replace("GIL_CHECKER", GIL_CHECKER))
        table.write_text("".join(map(definition, sorted(names))) + '.section .note.GNU-stack,"",@progbits\n')
        compiler = ["g++", "-shared", "-fPIC", f"-Wl,-soname,{STAND_IN.name}", "-o", STAND_IN]
        subprocess.run([*compiler, "-x", "c", answer, "-x", "assembler", table], check=True)


def definition(name: str) -> str:
    """Return a symbol in assembler: a class's type with its name, which pybind11 reads, or what nobody may call."""
    if name.startswith("_ZTI"):
        of_a_class = "_ZTVN10__cxxabiv117__class_type_infoE + 16"
        kind = name.removeprefix("_ZTI")
        return f'.data\n.balign 8\n.globl {name}\n{name}: .quad {of_a_class}, 1f\n1: .asciz "{kind}"\n'
    if name.startswith("_ZTV"):
        return f".bss\n.balign 8\n.globl {name}\n{name}: .zero 1024\n"
    code = f'lea 1f(%rip), %rdi\njmp without_cuda@PLT\n1: .asciz "{name}"\n'
    return f".text\n.globl {name}\n.type {name}, @function\n{name}: {code}"


if __name__ == "__main__":
    main()
