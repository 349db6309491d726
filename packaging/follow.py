#!/usr/bin/env python3
"""Follows pages to the letter: writes their files, runs their commands, and compares what they print.

With `--root ROOT` everything happens inside that root, where `/clone` has the examples and what
`packaging/build` made. With `--program PATH` it happens in a temporary folder of this machine, with the
program at PATH, and what the section "Install" says is left out.

The blocks of a page are read in order: `file=NAME` is a file, `console` has commands behind `$ ` with what
they print and `[exit N]`. `[RUN]`, `[TIME]` and `[CLOCK]` stand for what differs from run to run. Blocks of
`sh` are run in the clone and must succeed, except those that build from source.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SECTION = r"^## (?P<section>[^\n]+)\n"
BLOCK = r"^```(?P<language>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```$"
PIECE = re.compile(f"{SECTION}|{BLOCK}", re.M | re.S)
VARIES = {
    "RUN": r"[a-z0-9]{8}",
    "TIME": r"[0-9.]+m?s",
    "CLOCK": r"[0-9:.]+",
}
# What builds from source has been built before: a bare root has no compiler.
BUILDS = ("cargo ", "packaging/")
PLAIN = {"LANG": "C.UTF-8", "NO_COLOR": "1"}


class Place:
    """Where pages are followed: another root, or a folder of this machine."""

    def __init__(self, root: Path, start: list[str], environment: dict[str, str], installs: bool):
        self.root, self.start, self.environment, self.installs = root, start, environment, installs

    @classmethod
    def other_root(cls, root: Path) -> "Place":
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        environment = {"PATH": path, "HOME": "/root"}
        return cls(root, ["chroot", str(root)], environment, installs=True)

    @classmethod
    def folder(cls, folder: Path, program: Path) -> "Place":
        binaries = folder / "bin"
        binaries.mkdir()
        (binaries / "threadline").symlink_to(program.resolve(strict=True))
        examples = Path(__file__).parent.parent / "examples"
        left_by_runs = shutil.ignore_patterns(".threadline", "build")
        shutil.copytree(examples, folder / "clone" / "examples", ignore=left_by_runs)
        environment = {"PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(folder)}
        return cls(folder, [], environment, installs=False)

    def inside(self, folder: str) -> str:
        return f"/{folder}" if self.start else str(self.root / folder)

    def run(self, folder: str, script: str) -> tuple[str, int]:
        command = [*self.start, "bash", "-c", f"cd '{self.inside(folder)}' && {script}"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment | PLAIN,
        )
        return done.stdout, done.returncode


def pattern(expected: str) -> str:
    """The pattern that an output matches if it is the expected one."""
    out = ""
    for part in re.split(r"( *\[(?:RUN(?:-\d+)?|TIME|CLOCK)\])", expected):
        if name := re.fullmatch(r"( *)\[([A-Z]+)(?:-\d+)?\]", part):
            # A duration stands at the right of its column.
            out += (" *" if name[2] == "TIME" else name[1]) + VARIES[name[2]]
        else:
            out += re.escape(part)
    return out


def console(place: Place, folder: str, text: str) -> tuple[int, list[str]]:
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    problems = []
    for part in parts:
        command, _, expected = part.partition("\n")
        wanted = 0
        if match := re.search(r"^\[exit (\d+)\]\n?", expected, re.M):
            wanted, expected = int(match[1]), expected[: match.start()] + expected[match.end():]
        printed, code = place.run(folder, command)
        if code != wanted or not re.fullmatch(pattern(expected.rstrip()), printed.rstrip()):
            seen = f"printed (exit {code}, wanted {wanted}):\n{printed}"
            problems.append(f"$ {command}\n{seen}\ninstead of:\n{expected}")
    return len(parts), problems


def follow(place: Place, page: Path) -> tuple[int, list[str]]:
    folder = f"work-{page.stem.lower()}"
    (place.root / folder).mkdir()
    commands, problems, section = 0, [], ""
    for piece in PIECE.finditer(page.read_text()):
        text = piece["text"]
        if piece["section"]:
            section = piece["section"]
        elif piece["file"]:
            path = place.root / folder / piece["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif piece["language"] == "console":
            count, found = console(place, folder, text)
            commands += count
            problems += found
        elif piece["language"] == "sh" and (place.installs or section != "Install"):
            lines = [line for line in text.splitlines() if not line.startswith(BUILDS)]
            if not lines:
                continue
            commands += len(lines)
            printed, code = place.run("clone", "set -e\n" + "\n".join(lines))
            if code != 0:
                problems.append(f"{text}ended with {code}:\n{printed}")
    return commands, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--root", type=Path)
    where.add_argument("--program", type=Path)
    parser.add_argument("pages", type=Path, nargs="+")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="threadline-follow-") as temporary:
        if arguments.root:
            place = Place.other_root(arguments.root)
        else:
            place = Place.folder(Path(temporary), arguments.program)
        for page in arguments.pages:
            commands, problems = follow(place, page)
            print(f"{page}: {commands} commands, {len(problems)} that do something else")
            for problem in problems:
                print(problem)
            failed |= bool(problems) or commands == 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
