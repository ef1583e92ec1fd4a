"""A stand-in for a Cortex that a repository is fed to, and what its tests begin with."""

from compose.feeds.docs import Manifest
from compose.feeds.git import GitFeed, feed_git
from compose.feeds.git_command import open_repository
from compose.feeds.git_state import GitState
from schemas.events import UnitAsserted, parse_event
from schemas.positions import Position
from schemas.status import Accepted
from tests.git_history import Repository


class Recorder:
    """Stands for a Cortex: keeps each event once, and says which it had."""

    def __init__(self):
        self.kept = {}
        self.new = []
        self.units = {}

    def publish(self, events):
        taken = []
        for event in map(parse_event, events):
            again = event.id in self.kept
            if not again:
                self.kept[event.id] = event
                self.new.append(event)
            token = Position(log="j", topic="cortex.bulk", partition=0, number=len(self.kept)).token()
            taken.append(Accepted(id=event.id, source=event.source, token=token, duplicate=again))
        return taken

    def find(self, path):
        return self.units.get(path)

    def of(self, kind):
        return [event.data for event in self.new if isinstance(event, kind)]

    def texts(self):
        return [unit.text for unit in self.of(UnitAsserted) if unit.origin.source_type == "git_commit"]

    def unit(self, beginning):
        (found,) = [unit for unit in self.of(UnitAsserted) if unit.text.startswith(beginning)]
        return found


def feeding(tmp_path, repository: Repository):
    """Return what feeds the repository; what is remembered lies in a folder that a test may delete."""

    def feed(service, folder=None, scope="team/team-shop", state="state", **options):
        where = tmp_path / state
        feeding = GitFeed("shop", "acme", scope, **options)
        git = open_repository(folder or repository.folder)
        state_, manifest = GitState.load(where / "shop.json"), Manifest(where / "shop.docs.json")
        told = []
        service.new.clear()
        outcome = feed_git(
            git, feeding, state_, manifest, service=service, publish=service.publish,
            progress=lambda done, total: told.append((done, total)),
        )  # fmt: skip
        outcome.told = told
        return outcome

    return feed
