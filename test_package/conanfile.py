import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout

# What a package must define without any option, and what with each.
ALWAYS = {"parallax", "threads", "compiled"}
COMPONENTS = {"mpi": {"mpi", "compiled_mpi"}, "eigen": {"eigen"}, "cuda": {"cuda", "compiled_cuda", "nccl"}}


class ParallaxTestPackage(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        options = self.dependencies["parallax"].options
        on = ALWAYS.union(*(names for option, names in COMPONENTS.items() if options.get_safe(option)))
        off = set().union(*COMPONENTS.values()) - on
        defined = set(self.dependencies["parallax"].cpp_info.components)
        if defined != on:
            raise ConanException(f"package_info defines the components {sorted(defined)}, not {sorted(on)}")
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["on"] = ";".join(sorted(on - {"nccl"}))  # which a machine with CUDA may lack
        toolchain.cache_variables["off"] = ";".join(sorted(off))
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            with open(os.path.join(self.build_folder, "programs.txt")) as programs:
                for program in programs.read().split():
                    self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
