from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Libxlsxwriter(CMakePackage):
    """C library that writes workbooks for Excel."""

    homepage = "https://libxlsxwriter.github.io/"
    url = "https://github.com/jmcnamara/libxlsxwriter/archive/refs/tags/v1.2.4.tar.gz"

    license("BSD-2-Clause")

    version("1.2.4", sha256="e0db59fc248a5ffa465a05ea83a9d466d4bca0e53ab42771515d4ebb467a41c1")

    depends_on("c", type="build")
    depends_on("zlib-api")

    def cmake_args(self):
        return [self.define("BUILD_SHARED_LIBS", True)]
