from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Parallax(CMakePackage):
    """Data-parallel training in C++20, header-only: all-reduce for dense variables, sharded push and pull for sparse
    ones. Ranks are threads, MPI processes or CUDA devices."""

    homepage = "https://example.invalid/parallax"
    url = "https://example.invalid/parallax/archive/refs/tags/v0.2.0.tar.gz"

    license("Apache-2.0")

    # Placeholders: whoever publishes the tag fills in the addresses above and `sha256sum` of its archive.
    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("mpi", default=True, description="Ranks as MPI processes")
    variant("eigen", default=False, description="Eigen's matrices as tensors")
    variant("cuda", default=False, description="Variables on CUDA devices")
    variant("nccl", default=False, when="+cuda", description="Ranks that have a CUDA device each, over NCCL")

    depends_on("cxx", type="build")
    depends_on("c", type="build", when="+mpi")  # CMake looks for MPI's C interface
    depends_on("cmake@3.25:", type="build")

    depends_on("mpi", when="+mpi")
    depends_on("eigen@3.4:3", when="+eigen")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+nccl")

    conflicts("%gcc@:11", msg="parallax needs C++20 as g++ 12 has it")
    conflicts("%clang@:13", msg="parallax needs C++20 as clang 14 has it")

    def cmake_args(self):
        return [
            self.define("PARALLAX_INSTALL", True),
            self.define("PARALLAX_BUILD_TESTS", False),
            self.define("PARALLAX_BUILD_EXAMPLES", False),
            self.define("PARALLAX_BUILD_BENCHMARKS", False),
            self.define("PARALLAX_BUILD_TOOLS", False),
            self.define_from_variant("PARALLAX_WITH_MPI", "mpi"),
            self.define_from_variant("PARALLAX_WITH_EIGEN", "eigen"),
            self.define_from_variant("PARALLAX_WITH_CUDA", "cuda"),
            self.define("PARALLAX_WITH_NCCL", self.spec.satisfies("+nccl")),
        ]
