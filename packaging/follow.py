#!/usr/bin/env python3
"""Follows pages to the letter inside another root: writes their files, runs their commands, compares what is printed.

The blocks of a page are read in order: `file=NAME` is a file, `console` has commands behind `$ ` with what they
print and `[exit N]`. `[RUN]`, `[TIME]`, `[CLOCK]` and the like stand for what differs from run to run. Commands in
`sh` blocks that begin with `threadline` or `cd` are run, too; those that build from source are not.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?[^\n]*\n(.*?)^```$", re.M | re.S)
VARIES = {
    r"\[RUN(?:-\d+)?\]": r"[a-z0-9]{8}",
    r" *\[TIME\]": r" *\S+",
    r"\[CLOCK\]": r"[0-9:.]+",
}


def pattern(expected: str) -> str:
    out, rest = "", expected
    while rest:
        found = min(
            ((match.start(), match, by) for text, by in VARIES.items() if (match := re.search(text, rest))),
            key=lambda found: found[0],
            default=None,
        )
        if found is None:
            return out + re.escape(rest)
        start, match, by = found
        out += re.escape(rest[:start]) + by
        rest = rest[match.end():]
    return out


def run(root: Path, folder: str, command: str) -> tuple[str, int]:
    inside = ["chroot", str(root), "env", "-i", "PATH=/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8", "NO_COLOR=1"]
    script = f"cd {folder} && {command}"
    done = subprocess.run([*inside, "bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout, done.returncode


def console(root: Path, folder: str, text: str) -> list[str]:
    problems = []
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        wanted = 0
        if match := re.search(r"^\[exit (\d+)\]\n?", expected, re.M):
            wanted, expected = int(match[1]), expected[: match.start()] + expected[match.end():]
        printed, code = run(root, folder, command)
        if code != wanted or not re.fullmatch(pattern(expected.strip()), printed.strip()):
            problems.append(f"$ {command}\nprinted (exit {code}, wanted {wanted}):\n{printed}\ninstead of:\n{expected}")
    return problems


def follow(root: Path, page: Path) -> tuple[int, list[str]]:
    folder = f"/work-{page.stem.lower()}"
    (root / folder[1:]).mkdir(exist_ok=True)
    commands, problems = 0, []
    for language, name, text in BLOCK.findall(page.read_text()):
        if name:
            path = root / folder[1:] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif language == "console":
            commands += text.count("$ ")
            problems += console(root, folder, text)
        elif language == "sh" and "threadline " in text and "cargo" not in text:
            commands += 1
            printed, code = run(root, "/", text.strip().replace("\n", " && "))
            if code != 0:
                problems.append(f"{text}ended with {code}:\n{printed}")
    return commands, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("pages", type=Path, nargs="+")
    arguments = parser.parse_args()
    failed = False
    for page in arguments.pages:
        commands, problems = follow(arguments.root, page)
        print(f"{page}: {commands} commands, {len(problems)} that do something else")
        for problem in problems:
            print(problem)
        failed |= bool(problems) or commands == 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
