# Spack recipe. From a checkout of Multigrain:
#
#   spack repo create ~/spack-multigrain multigrain && mkdir -p ~/spack-multigrain/packages/multigrain
#   cp packaging/spack/package.py ~/spack-multigrain/packages/multigrain && spack repo add ~/spack-multigrain
#   spack dev-build multigrain@0.1.0
from spack.package import *


class Multigrain(MakefilePackage):
    """Software distributed shared memory for Linux: a program of threads runs over many processes and machines,
    which share memory at the grain that the program chooses, through ordinary pointers."""

    license("MIT OR Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("cmake", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openssh", type="run")

    requires("platform=linux", msg="Multigrain needs Linux")
    requires("target=x86_64:", "target=aarch64:", policy="one_of", msg="Multigrain needs 64-bit Linux")

    def setup_build_environment(self, env):
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))

    @property
    def install_targets(self):
        return ["install", f"PREFIX={self.prefix}"]
