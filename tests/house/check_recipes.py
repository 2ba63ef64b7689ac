#!/usr/bin/env python3
"""check_recipes.py ROOT: the recipes of Spack, EasyBuild and Apptainer in scripts/packaging agree with CMakeLists.txt and with the
libraries of scripts/lib/packages.sh. They are run here with stand-ins for the names that the two tools give them."""
import contextlib
import pathlib
import re
import subprocess
import sys
import types

root = pathlib.Path(sys.argv[1]).resolve()
recipes = root / "scripts/packaging"
problems = []

# Each library of packages.sh as the two call it; None: they have none, and the build does without or has it in its compiler.
NAMES = {
    "MPI": ("mpi", None),  # EasyBuild: in the toolchain gompi
    "OpenMP": (None, None),
    "OneDNN": ("onednn", "oneDNN"),
    "hwloc": ("hwloc", "hwloc"),
    "powercap": (None, None),
    "CLI11": ("cli11", "CLI11"),
    "fmt": ("fmt", "fmt"),
    "nlohmann_json": ("nlohmann-json", "nlohmann_json"),
    "valijson": ("valijson", "valijson"),
    "benchmark": ("benchmark", "googlebenchmark"),
    "XlsxWriter": ("libxlsxwriter", "libxlsxwriter"),
    "LibArchive": ("libarchive", "libarchive"),
    "Chart.js": (None, None),
}
TOOLS = ({"c", "cxx", "cmake", "ninja", "pkgconf", "cuda"}, {"CMake", "Ninja", "pkgconf", "CUDA"})


def compare(where, wanted, found):
    problems.extend(f"{where}: {one} is missing" for one in sorted(wanted - found))
    problems.extend(f"{where}: {one} is no library or tool that the build uses" for one in sorted(found - wanted))


def libraries_of_packages():
    script = '. "$0/common.sh"; . "$0/packages.sh"; printf "%s\\n" "${library_packages[@]%%:*}"'
    return subprocess.run(["bash", "-euc", script, root / "scripts/lib"], check=True, text=True, capture_output=True).stdout.split()


def of_cmake():
    text = "\n".join(path.read_text() for path in (root / "CMakeLists.txt", root / "results/CMakeLists.txt"))
    version = re.search(r"project\(trainwatt VERSION ([0-9.]+)", text)[1]
    least = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)", text)[1]
    onednn = re.search(r"find_package\(OneDNN ([0-9.]+)\.\.\.<([0-9]+)[ )]", (root / "models/compute/cpu/CMakeLists.txt").read_text())
    return version, least, (onednn[1], int(onednn[2]) - 1), set(re.findall(r"(?:option|set)\((TRAINWATT_\w+) [^\n]*(?:CACHE|\" O[NF])", text))


def check_options(where, text):
    problems.extend(f"{where}: {one} is no option of CMakeLists.txt" for one in sorted(set(re.findall(r"TRAINWATT_\w+", text)) - options))


# ---- Spack: from version 2 of its package API on, the folders spack_repo/NAMESPACE contain repo.yaml, else Spack refuses the repository ----
repository = next((recipes / "spack").rglob("repo.yaml")).parent


def spack(folder):
    """{directive: [(first word, all words)]} of a recipe."""
    said = {}

    def directive(name):
        return lambda *words, **named: said.setdefault(name, []).append((words[0] if words else "", words, named))

    names = ("version", "variant", "depends_on", "conflicts", "license", "generator")
    stand_ins = {name: directive(name) for name in names} | {"when": lambda _: contextlib.nullcontext()}
    modules = {"spack.package": stand_ins, "spack_repo.builtin.build_systems.cmake": {"CMakePackage": type("CMakePackage", (), {})},
               "spack_repo.builtin.build_systems.cuda": {"CudaPackage": type("CudaPackage", (), {})}}
    for name, content in modules.items():
        while name:  # and the packages above
            sys.modules.setdefault(name, types.ModuleType(name)).__dict__.update(content)
            name, content = name.rpartition(".")[0], {}
    path = repository / "packages" / folder / "package.py"
    exec(compile(path.read_text(), path, "exec"), {})
    return said, path.relative_to(root).as_posix(), path.read_text()


version, least, onednn, options = of_cmake()
libraries = libraries_of_packages()
problems += [f"{one} of scripts/lib/packages.sh has no name in tests/house/check_recipes.py" for one in libraries if one not in NAMES]
described = dict(re.findall(r"^  (\w+): (\S+)$", (repository / "repo.yaml").read_text(), re.MULTILINE))
if repository != recipes / "spack/spack_repo" / described["namespace"]:
    problems.append(f"{repository.relative_to(root)}/repo.yaml: must be in scripts/packaging/spack/spack_repo/{described['namespace']}")
if f"spack repo add {repository.relative_to(root)}\n" not in (recipes / "README.md").read_text():
    problems.append(f"scripts/packaging/README.md: does not add {repository.relative_to(root)}")
said, where, text = spack("trainwatt")
if [first for first, *_ in said["version"]] != [version]:
    problems.append(f"{where}: the version is not {version}, that of CMakeLists.txt")
if version not in re.search(r"url = \"(.*)\"", text)[1]:
    problems.append(f"{where}: the url is not of version {version}")
needs = {re.split("[@ ]", first)[0]: first for first, *_ in said["depends_on"]}
compare(where, {NAMES[one][0] for one in libraries if one in NAMES and NAMES[one][0]} | TOOLS[0], set(needs))
if needs.get("cmake") != f"cmake@{least}:":
    problems.append(f"{where}: needs {needs.get('cmake')}, CMakeLists.txt {least}")
if f"@{onednn[0]}:{onednn[1]} " not in needs.get("onednn", ""):
    problems.append(f"{where}: needs {needs.get('onednn')}, the cpu device {onednn[0]} to {onednn[1]}")
variants = {first for first, *_ in said["variant"]} | {"cuda"}
problems += [f"{where}: {one} is no variant" for one in sorted(set(re.findall(r"\"[+~](\w+)", text)) - variants)]
check_options(where, text)
spack("libxlsxwriter")

# ---- EasyBuild ----
constants = {"SYSTEM": "system", "SHLIB_EXT": "so", "SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz"}
easyconfigs = {}
for path in sorted((recipes / "easybuild").glob("*.eb")):
    values = dict(constants)
    exec(compile(path.read_text(), path, "exec"), {}, values)
    toolchain = "-{name}-{version}".format(**values["toolchain"])
    uses = {word[0]: word[1] for word in values.get("dependencies", []) + values.get("builddependencies", [])}
    suffix = values.get("versionsuffix", "").replace("%(cudaver)s", uses.get("CUDA", ""))
    if path.name != f"{values['name']}-{values['version']}{toolchain}{suffix}.eb":
        problems.append(f"{path.name}: holds {values['name']} {values['version']}{toolchain}{suffix}")
    easyconfigs.setdefault(values["name"], []).append((path.name, values, uses))
for name, values, uses in easyconfigs.get("trainwatt", []):
    if values["version"] != version:
        problems.append(f"{name}: the version is not {version}, that of CMakeLists.txt")
    cuda = set() if "CUDA" in uses else {"CUDA"}
    compare(name, {NAMES[one][1] for one in libraries if one in NAMES and NAMES[one][1]} | TOOLS[1] - cuda, set(uses))
    for used, its in uses.items():
        for other, others, _ in easyconfigs.get(used, []):
            if others["version"] != its:
                problems.append(f"{name}: needs {used} {its}, {other} is another version")
    check_options(name, values["configopts"])
if len(easyconfigs.get("trainwatt", [])) != 2:
    problems.append("scripts/packaging/easybuild: not two recipes of trainwatt, with CUDA and without")

# ---- Apptainer ----
path = recipes / "apptainer/trainwatt.def"
parts = re.split(r"(?=^Bootstrap:)", path.read_text(), flags=re.MULTILINE)[1:]
stages = [dict(re.findall(r"^(Bootstrap|From|Stage): (.*)$", part, re.MULTILINE)) for part in parts]
if [stage.get("Stage") for stage in stages] != ["build", "final"] or len({stage.get("From") for stage in stages}) != 1:
    problems.append(f"{path.name}: its stages must be build and final, from one distribution")
posts = re.findall(r"^%post\n((?:(?:    .*)?\n)+)", path.read_text(), re.MULTILINE)
if len(posts) != 2 or 'ensure_packages "${program_packages[@]}"' not in posts[0] or "ensure_packages" not in posts[1]:
    problems.append(f"{path.name}: does not install the packages of scripts/lib/packages.sh")
for post in posts:
    done = subprocess.run(["sh", "-n"], input=post, text=True, capture_output=True)
    problems.extend([f"{path.name}: {done.stderr.strip()}"] if done.returncode else [])
    problems.extend(f"{path.name}: {script} is not there" for script in re.findall(r"\b(scripts/[\w/.-]+)", post) if not (root / script).exists())

# ---- without a network ----
page = root / "scripts/packaging/README.md"
recipe = page.read_text().split("\n## Without a network\n")[1].split("\n## ")[0]
carried = re.search(r"--download-only .* git \"\$\{program_packages\[@\]\}\"", recipe)
if re.search(r"^ *git clone carry/", recipe, re.MULTILINE) and not carried:
    problems.append("scripts/packaging/README.md: git is called without a network, but not carried there")

print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
