import os

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, get
from conan.tools.layout import basic_layout

required_conan_version = ">=2.0"


class ParallaxConan(ConanFile):
    name = "parallax"
    description = "Data-parallel training in C++20: all-reduce for dense variables, sharded push and pull for sparse ones"
    license = "Apache-2.0"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "https://example.invalid/parallax"  # a placeholder, as in conandata.yml
    topics = ("machine-learning", "distributed-training", "data-parallel", "mpi", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "with_mpi": [True, False],
        "with_eigen": [True, False],
    }
    default_options = {
        "with_mpi": False,
        "with_eigen": False,
    }
    no_copy_source = True

    def layout(self):
        basic_layout(self, src_folder="src")

    def requirements(self):
        if self.options.with_mpi:
            self.requires("openmpi/4.1.6", transitive_headers=True, transitive_libs=True)
        if self.options.with_eigen:
            self.requires("eigen/3.4.0", transitive_headers=True)

    def package_id(self):
        self.info.clear()

    def validate(self):
        check_min_cppstd(self, 20)

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def build(self):
        pass

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "parallax/*", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "parallax")
        self.cpp_info.set_property("cmake_target_name", "parallax::all")
        self.cpp_info.set_property("pkg_config_name", "parallax-all")
        core = self._component("parallax")
        core.set_property("pkg_config_name", "parallax")
        threads = self._component("threads", "parallax")
        if self.settings.os in ["Linux", "FreeBSD"]:
            threads.system_libs = ["pthread"]
        if self.options.with_mpi:
            mpi = self._component("mpi", "parallax", "openmpi::openmpi")
            mpi.defines = ["MPICH_SKIP_MPICXX=1", "OMPI_SKIP_MPICXX=1"]
        if self.options.with_eigen:
            self._component("eigen", "parallax", "eigen::eigen")

    def _component(self, name, *requires):
        component = self.cpp_info.components[name]
        component.set_property("cmake_target_name", f"parallax::{name}")
        component.requires = list(requires)
        component.bindirs = []
        component.libdirs = []
        return component
