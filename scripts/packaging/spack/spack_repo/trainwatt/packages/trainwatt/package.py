from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Trainwatt(CMakePackage, CudaPackage):
    """Benchmark of neural-network training under MPI: throughput, energy and cost of a machine."""

    # The archive is made in a checkout: git archive --prefix=trainwatt-0.1.0/ -o trainwatt-0.1.0.tar.gz HEAD
    manual_download = True
    url = "file:///tmp/trainwatt-0.1.0.tar.gz"

    license("Apache-2.0")

    version("0.1.0")

    variant("hpc", default=True, description="Build trainwatt-train and trainwatt-ops; without it the tool trainwatt alone")
    variant("onednn", default=True, when="+hpc", description="Build the cpu device; without it training runs on GPUs alone")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconf", type="build")
    depends_on("cli11@2:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("valijson@1:", type="build")
    depends_on("fmt@9:")
    depends_on("libxlsxwriter")
    depends_on("libarchive compression=bz2lib,lz4,lzma,zlib,zstd")
    with when("+hpc"):
        depends_on("mpi")
        depends_on("benchmark")
        depends_on("hwloc@2:")
        depends_on("cuda@12:", when="+cuda")
    depends_on("onednn@2.6:3 cpu_runtime=omp", when="+onednn")

    conflicts("%gcc@:11", msg="C++20 needs g++ 12 or later")
    conflicts("%clang@:15", msg="C++20 needs clang 16 or later")
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=90")
    conflicts("+cuda", when="~hpc", msg="the tool alone has no GPU code")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("TRAINWATT_TESTS", False),
            self.define_from_variant("TRAINWATT_HPC", "hpc"),
            self.define("TRAINWATT_CPU", "ON" if self.spec.satisfies("+onednn") else "OFF"),
            self.define("TRAINWATT_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
