"""Compile the CPU kernels, once per instruction set; the rest is in pyproject.toml.

The libraries have a plain C interface and are loaded by ctypes: one wheel per platform
serves every Python. What cannot be compiled is left out, and the package runs without.
The compiler is $CXX, which may have options of its own ("g++ -fsanitize=address"), or
what is found on PATH.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCE = Path("skpararnn/kernels/cpu/scan.cpp")
COMPILERS = ("c++", "g++", "clang++")

# never -ffast-math: linked with it, a library that is merely loaded switches the whole
# process to flush-to-zero. These are the parts of it that the kernels profit from
FLAGS = [
    *("-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math"),
    *("-ffp-contract=fast", "-fno-exceptions", "-fno-rtti"),
    *("-shared", "-fPIC", "-pthread", "-fvisibility=hidden"),
]
if sys.platform == "linux":
    FLAGS.append("-Wl,--as-needed")  # no libstdc++: the kernels use none of it

# instruction set: its flags; a vector of the source must be as wide as a register
X86 = {
    # without the second flag clang may cut vectors in two
    "x86-64-v4": "-march=x86-64-v4 -mprefer-vector-width=512 -DVECTOR_BYTES=64",
    "x86-64-v3": "-march=x86-64-v3 -DVECTOR_BYTES=32",
    "x86-64": "-march=x86-64 -DVECTOR_BYTES=16",
}
ARM = {"neon": "-DVECTOR_BYTES=16"}
ELSEWHERE = {"generic": "-DVECTOR_BYTES=16"}
MACHINES = {"x86_64": X86, "amd64": X86, "aarch64": ARM, "arm64": ARM}


class BuildKernels(build_ext):
    """Compile each extension by one command; leave out what fails."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = True  # each may take a minute

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + ".so"  # no tag of this Python

    def build_extensions(self):
        self.compiler_command = find_compiler()
        super().build_extensions()
        built = [ext for ext in self.extensions if self.library_of(ext).exists()]
        self.extensions = self.distribution.ext_modules = built

    def library_of(self, ext):
        return Path(self.get_ext_fullpath(ext.name))

    def build_extension(self, ext):
        library = self.library_of(ext)
        if not self.force and is_newer(library, SOURCE, Path(__file__)):
            return
        library.parent.mkdir(parents=True, exist_ok=True)
        library.unlink(missing_ok=True)
        if self.compiler_command:
            options = [*FLAGS, *ext.extra_compile_args, str(SOURCE), "-o", str(library)]
            compile_library([*self.compiler_command, *options])

    def copy_extensions_to_source(self):
        for library in SOURCE.parent.glob("scan_*.so"):
            library.unlink()  # or one that no longer compiles would stay in use
        super().copy_extensions_to_source()


class PlatformWheel(bdist_wheel):
    """Tag the wheel py3-none-PLATFORM, or py3-none-any if no kernel was compiled."""

    def run(self):
        self.run_command("build")  # what was compiled decides
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


def find_compiler():
    """Words of the compiler's command, or None, said aloud."""
    asked = os.environ.get("CXX", "").strip()
    for command in [asked] if asked else COMPILERS:
        words = shlex.split(command)
        if shutil.which(words[0]):
            return words
    looked_for = f"CXX={asked}" if asked else ", ".join(COMPILERS)
    say(
        f"no C++ compiler ({looked_for}), so no fast CPU kernels: the package works "
        "without them, slower. Install g++ or clang++, then reinstall skpararnn."
    )
    return None


def compile_library(command):
    """Run the compiler, which prints its complaints itself."""
    try:
        failure = subprocess.run(command).returncode
    except OSError as error:  # not a program
        failure = error
    if failure:
        name = Path(command[-1]).name
        say(f"{name} was left out, for this failed ({failure}): {shlex.join(command)}")


def is_newer(target, *sources):
    """Whether the target exists and is younger than all its sources."""
    if not target.exists():
        return False
    return target.stat().st_mtime > max(path.stat().st_mtime for path in sources)


def say(message):
    sys.stderr.write(f"skpararnn: {message}\n")  # at once, for there are threads
    sys.stderr.flush()


def kernels():
    """One extension per instruction set of this machine."""
    sets = MACHINES.get(platform.machine().lower(), ELSEWHERE)
    return [
        Extension(
            f"skpararnn.kernels.cpu.scan_{name.replace('-', '_')}",
            sources=[SOURCE.as_posix()],
            extra_compile_args=flags.split(),
            optional=True,
        )
        for name, flags in sets.items()
    ]


setup(
    ext_modules=kernels(),
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": PlatformWheel},
)
