"""Outside tools: found, installed from Debian's packages in CI, asked for artefacts by name."""

import hashlib
import os
import shutil
import subprocess
import sys

PACKAGES = {
    "java": ["openjdk-17-jdk-headless"],
    "javac": ["openjdk-17-jdk-headless"],
    "mvn": ["maven"],
    "node": ["nodejs", "npm"],
    "npm": ["npm"],
    "go": ["golang"],
}


class MissingTool(Exception):
    pass


def in_ci():
    return os.environ.get("CI") == "true"


def need(*names):
    """Makes sure that the tools are there: in CI missing ones are installed, elsewhere MissingTool is raised."""
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    packages = sorted({package for name in missing for package in PACKAGES[name]})
    if not in_ci():
        raise MissingTool(f"{', '.join(missing)} not found (Debian: apt-get install {' '.join(packages)})")
    run(["apt-get", "update", "-q"], seconds=300)
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages], seconds=900)


def run(command, directory=None, seconds=600, environment=None):
    """Runs a tool at low priority; its output is shown only when it fails."""
    done = subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=directory,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
    )
    if done.returncode != 0:
        sys.stderr.buffer.write(done.stdout[-4000:])
        raise RuntimeError(f"{' '.join(command[:3])} … failed with status {done.returncode}")
    return done.stdout


def maven_class_path(pom, version, work):
    """Class path of the artefacts that `pom` names, at one version; Maven is asked once per version."""
    need("java", "mvn")
    out = os.path.join(work, f"{os.path.basename(os.path.dirname(pom))}-{version}.classpath")
    if os.path.exists(out):
        with open(out, encoding="utf-8") as text:
            class_path = text.read().strip()
        if all(os.path.exists(jar) for jar in class_path.split(":")):
            return class_path
    run(["mvn", "-q", "-B", "-f", pom, f"-Drocketmq.version={version}", "dependency:build-classpath",
         f"-Dmdep.outputFile={out}"])
    with open(out, encoding="utf-8") as text:
        return text.read().strip()


def fresh(target, sources, salt=""):
    """Whether `target` was built from exactly these sources; see `built`."""
    stamp = target + ".stamp"
    return os.path.exists(target) and os.path.exists(stamp) and _read(stamp) == _digest(sources, salt)


def built(target, sources, salt=""):
    with open(target + ".stamp", "w", encoding="ascii") as stamp:
        stamp.write(_digest(sources, salt))


def _read(path):
    with open(path, encoding="ascii") as text:
        return text.read()


def _digest(sources, salt):
    digest = hashlib.sha256(salt.encode())
    for source in sources:
        with open(source, "rb") as data:
            digest.update(data.read())
    return digest.hexdigest()
