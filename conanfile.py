import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import supported_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class ParallaxRecipe(ConanFile):
    """Installs the headers and parallax's own CMake package. Nothing is required: MPI and Eigen are the consumer's, found
    by the components of that package (find_package(parallax COMPONENTS mpi eigen))."""

    name = "parallax"
    description = "Data-parallel training in C++20: all-reduce for dense variables, sharded push and pull for sparse ones"
    license = "Apache-2.0"
    topics = ("machine-learning", "distributed-training", "data-parallel", "mpi", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*"
    no_copy_source = True

    def set_version(self):
        text = load(self, Path(self.recipe_folder) / "include" / "parallax" / "version.hpp")
        parts = ("MAJOR", "MINOR", "PATCH")
        self.version = ".".join(re.search(rf"#define PARALLAX_VERSION_{part} (\d+)", text)[1] for part in parts)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        supported = supported_cppstd(self)
        if supported is not None and "20" not in supported:
            raise ConanInvalidConfiguration("parallax needs a compiler that supports C++20")

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"PARALLAX_BUILD_{option}"] = False
        for option in ("MPI", "EIGEN"):  # looked for by the consumer, not here
            toolchain.cache_variables[f"PARALLAX_WITH_{option}"] = "OFF"
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # the package has its own parallaxConfig.cmake
        self.cpp_info.builddirs = ["share/cmake/parallax"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
