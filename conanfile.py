import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import supported_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, save

# The components of each option. Those that need nothing of the system (threads, compiled) are always there, and conformance is
# wherever Catch2 is.
COMPONENTS = {"mpi": ("mpi", "compiled_mpi"), "eigen": ("eigen",), "cuda": ("cuda", "compiled_cuda", "nccl")}

# parallax's own package, less the components of options that are off.
CONFIG = """\
include("${CMAKE_CURRENT_LIST_DIR}/../components.cmake")
if(NOT parallax_FIND_COMPONENTS)
  set(parallax_FIND_COMPONENTS ${parallax_components})
endif()
list(PREPEND parallax_FIND_COMPONENTS parallax)
foreach(parallax_component IN ITEMS @OFF@)
  if(parallax_component IN_LIST parallax_FIND_COMPONENTS AND parallax_FIND_REQUIRED_${parallax_component})
    set(parallax_FOUND FALSE)
    string(APPEND parallax_NOT_FOUND_MESSAGE
      "parallax: component ${parallax_component}: switched off by an option of its Conan package\\n")
  endif()
  list(REMOVE_ITEM parallax_FIND_COMPONENTS ${parallax_component})
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/../parallaxConfig.cmake")
"""


class ParallaxRecipe(ConanFile):
    """Installs the headers and parallax's own CMake package. Nothing is required of Conan: MPI, Eigen and CUDA are the
    consumer's system's, found by the components of that package (find_package(parallax COMPONENTS mpi eigen)). An option that
    is on defines its components; those of an option that is off are not defined, even where the dependency is found."""

    name = "parallax"
    description = "Data-parallel training in C++20: all-reduce for dense variables, sharded push and pull for sparse ones"
    license = "Apache-2.0"
    topics = ("machine-learning", "distributed-training", "data-parallel", "mpi", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {option: [True, False] for option in COMPONENTS}
    default_options = {option: False for option in COMPONENTS}  # headers need none, and what is not asked for is not looked for
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
        for option in ("TESTS", "EXAMPLES", "BENCHMARKS", "TOOLS"):
            toolchain.cache_variables[f"PARALLAX_BUILD_{option}"] = False
        for option in ("MPI", "EIGEN", "CUDA", "NCCL"):  # looked for by the consumer, not here
            toolchain.cache_variables[f"PARALLAX_WITH_{option}"] = "OFF"
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        installed = Path(self.package_folder) / "share" / "cmake" / "parallax"
        copy(self, "parallaxConfigVersion.cmake", installed, installed / "conan")
        off = [name for option, names in COMPONENTS.items() if not self.options.get_safe(option) for name in names]
        save(self, installed / "conan" / "parallaxConfig.cmake", CONFIG.replace("@OFF@", " ".join(off)))

    def package_id(self):
        self.info.settings.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # the package has its own parallaxConfig.cmake
        self.cpp_info.builddirs = ["share/cmake/parallax/conan"]
        self._component("parallax").builddirs = self.cpp_info.builddirs
        threads = self._component("threads", "parallax")
        if self.settings.os in ("Linux", "FreeBSD"):
            threads.system_libs = ["pthread"]
        self._component("compiled", "parallax")
        if self.options.mpi:
            self._component("mpi", "parallax").defines = ["MPICH_SKIP_MPICXX=1", "OMPI_SKIP_MPICXX=1"]
            self._component("compiled_mpi", "compiled", "mpi")
        if self.options.eigen:
            self._component("eigen", "parallax")
        if self.options.cuda:
            self._component("cuda", "parallax")
            self._component("compiled_cuda", "compiled", "cuda")
            self._component("nccl", "parallax")

    def _component(self, name, *requires):
        component = self.cpp_info.components[name]
        component.set_property("cmake_target_name", f"parallax::{name}")
        component.set_property("pkg_config_name", name if name == "parallax" else f"parallax-{name}")
        component.requires = list(requires)
        component.bindirs = []
        component.libdirs = []
        return component
