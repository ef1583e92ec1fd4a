"""Git repositories made for tests: by hand, commit by commit, or thousands of commits at once."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

ANA = "Ana Souza <ana@example.org>"
BEN = "Ben Ito <ben@example.org>"


class Repository:
    """A repository with a working tree; time advances by an hour a commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.hours = 0
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, given: bytes | None = None, check: bool = True, **env: str) -> str:
        """Run git without anybody's configuration."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(self.folder)}
        command = [
            "git",
            "-C",
            str(self.folder),
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "protocol.file.allow=always",
            *arguments,
        ]
        done = subprocess.run(command, input=given, capture_output=True, env=clean | env, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").strip()

    def write(self, path: str, content: str | bytes = "x\n") -> None:
        """Write a file and stage it."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--", path)

    def commit(self, message: str | bytes, *paths: str, author: str = ANA, date: str | None = None) -> str:
        """Commit new lines in the paths (and what is staged); return the hash."""
        for path in paths:
            self.write(path, f"{message!r} {self.hours}\n")
        self.hours += 1
        when = date or f"2026-03-{1 + self.hours // 24:02d}T{self.hours % 24:02d}:00:00+02:00"
        name, _, address = author.partition(" <")
        who = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER")
               for field, value in (("NAME", name), ("EMAIL", address.rstrip(">")), ("DATE", when))}  # fmt: skip
        given = message if isinstance(message, bytes) else message.encode()
        options = ("--quiet", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "--file=-")
        self.git("commit", *options, given=given, **who)
        return self.git("rev-parse", "HEAD")


SUBJECTS = (
    "Fix the lost wakeup in {module}", "fix({module}): retry {number} times", "Switch {module} to batches of {number}",
    "Refactor {module}", "Add a limit of {number} to {module}", "docs: how {module} is deployed", "Tidy {module}",
    "feat: {module} reports its lag", "Update the fixtures of {module}", "Prevent a race in {module}",
)  # fmt: skip


def synthesize(folder: Path, commits: int, *, files: int = 400, people: int = 25, seed: int = 7) -> Repository:
    """Make a repository of many commits in one stream: renames of nobody's, merges every 50th, a bot every 20th."""
    repository = Repository(folder)
    stream = b"".join(_stream(commits, files, people, random.Random(seed)))
    repository.git("fast-import", "--quiet", given=stream)
    repository.git("reset", "--quiet", "--hard", "main")
    return repository


def _stream(commits: int, files: int, people: int, chance: random.Random) -> Iterator[bytes]:
    for number in range(1, commits + 1):
        index = chance.randrange(files // 3)
        module = f"module{index}"
        subject = chance.choice(SUBJECTS).format(module=module, number=number)
        body = (
            f"\n\nSeen in run {number} of {module}: the queue grew because the reader slept.\n"
            if number % 3 == 0
            else "\n"
        )
        person = chance.randrange(people)
        who = (
            "dependabot[bot] <bot@example.org>"
            if number % 20 == 0
            else f"Person Number{person} <p{person}@example.org>"
        )
        merges = number % 50 == 0
        message = f"Merge branch 'topic{number}'\n" if merges else subject + body
        yield f"commit refs/heads/main\nmark :{number}\nauthor {who} {1_700_000_000 + number * 600} +0100\n".encode()
        yield f"committer {who} {1_700_000_000 + number * 600} +0100\n".encode()
        yield f"data {len(message.encode())}\n{message}".encode()
        if number > 1:
            yield f"from :{number - 1}\n".encode()
        if merges:
            yield f"merge :{number - 7}\n".encode()
        for _ in range(0 if merges else 1 + chance.randrange(3)):
            path = f"src/area{index % 20}/{module}_{chance.randrange(3)}.py"
            content = f"line {number}\n"
            yield f"M 100644 inline {path}\ndata {len(content)}\n{content}\n".encode()
        yield b"\n"
