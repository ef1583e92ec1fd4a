"""Apache Kafka on loopback: one node that is broker and controller, from the ordinary Java packages.

Measured: 45 jars, 44 MB, fetched in some 5 s; serves 2.5 s after its start, in under 400 MB.
"""

import asyncio
import base64
import hashlib
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from compose.local.children import Command
from compose.native.installing import OnProgress, installed, run, tool
from compose.native.ports import LOOPBACK, free_ports
from compose.native.server import LOG, Server, accepts, made
from shared.errors import LogUnavailable
from shared.kafka_admin import cluster_id

VERSION: Final = "4.3.1"
POM: Final = Path(__file__).with_name("pom.xml")
JAVA: Final = "apt-get install openjdk-17-jre-headless (Java 17 or later)"
MAVEN: Final = "apt-get install maven"
FETCH_S: Final = 600.0  # 5 s here; a slow line may take minutes
FORMAT_S: Final = 60.0
START_S: Final = 60.0  # 2.5 s here; on a busy machine ten times that
STOP_S: Final = 15.0  # an orderly end takes 1 to 3 s
ANSWER_S: Final = 2.0

LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""


@dataclass(frozen=True)
class KafkaPorts:
    """The ports of a node: where clients come, and the controller's."""

    client: int
    controller: int

    @classmethod
    def free(cls) -> Self:
        """Choose ports that nobody uses."""
        return cls(*free_ports(1, 1))


class KafkaServer(Server):
    """A node that runs on its folder."""

    def __init__(self, java: str, jars: Path, folder: Path, ports: KafkaPorts) -> None:
        self._java = java
        self._jars = jars
        self._folder = folder
        self._ports_of = ports
        self.bootstrap = f"{LOOPBACK}:{ports.client}"
        words = (*_jvm(java, jars), "kafka.Kafka", "server.properties")
        command = Command("Kafka", words, folder, _env(folder), STOP_S)
        super().__init__(command, (ports.client, ports.controller), folder / LOG, self._answers, START_S)

    async def _prepare(self) -> None:
        await asyncio.to_thread(_write_settings, self._folder, self._ports_of)
        if not (self._folder / "data" / "meta.properties").exists():
            await _format(self._java, self._jars, self._folder, self._folder / LOG)

    async def _answers(self) -> bool:
        if not await accepts(self._ports_of.client):  # the client's library would log each try as an error
            return False
        try:
            await cluster_id(self.bootstrap, deadline_s=ANSWER_S)
        except LogUnavailable:
            return False
        return True


async def start_kafka(folder: Path, ports: KafkaPorts, on_progress: OnProgress = lambda _: None) -> KafkaServer:
    """Start a node on the data in ``folder`` (made where it is missing) and wait until it serves.

    Raises ToolMissing (Java, or at the first time Maven), FolderInUse, another DataFolderError, PortInUse, NotReady.
    """
    java, jars = _java(), await install_kafka(on_progress)
    folder = await asyncio.to_thread(made, folder)
    return await KafkaServer(java, jars, folder, ports).start()


def _write_settings(folder: Path, ports: KafkaPorts) -> None:
    """Write what the node reads at its start."""
    (folder / "server.properties").write_text(properties(folder / "data", ports), encoding="utf-8")
    (folder / "log4j2.properties").write_text(LOG4J, encoding="utf-8")


async def install_kafka(on_progress: OnProgress = lambda _: None) -> Path:
    """Return the folder of the jars, fetched by Maven where this version is not in the cache yet."""
    pinned = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
    name = f"kafka-{VERSION}-{pinned}"

    async def fetch(draft: Path) -> None:
        on_progress(f"fetching Kafka {VERSION} (44 MB, once)")
        maven = tool("mvn", MAVEN)
        shutil.copyfile(POM, draft / POM.name)
        # Maven needs the user's own settings and proxies
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={draft}")
        await run(Command("Maven", (maven, "-q", "-B", *goal), draft, dict(os.environ)), draft / "install.log")

    return await installed(name, fetch, FETCH_S)


def properties(data: Path, ports: KafkaPorts) -> str:
    """Return the node's configuration; what differs from Kafka's defaults has its reason beside it."""
    listeners = f"PLAINTEXT://{LOOPBACK}:{ports.client},CONTROLLER://{LOOPBACK}:{ports.controller}"
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        # a fixed voter, so that the node may come back on other ports
        "controller.quorum.voters": f"1@{LOOPBACK}:{ports.controller}",
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{ports.client}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        # one node holds one copy of everything
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 by default: files and start time for nothing on one node
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        "auto.create.topics.enable": "false",  # a topic is made as the table says, or it is an error
        "log.message.timestamp.type": "LogAppendTime",
        "group.initial.rebalance.delay.ms": "0",  # 3 s by default, at the first join of every group
        "group.min.session.timeout.ms": "1000",  # 6 s by default: a test may see a lost member sooner
        # a killed broker is let in again when its old session is over: 9 s by default
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # 128 MB by default, of a heap of 384
        "log.index.size.max.bytes": str(1024 * 1024),  # 10 MB by default, mapped twice for each partition
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


async def _format(java: str, jars: Path, folder: Path, log: Path) -> None:
    """Give the data folder its cluster id, which is the id of the log from then on."""
    words = ("kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", "server.properties")
    await run(Command("Kafka's format", (*_jvm(java, jars), *words), folder, _env(folder)), log)


def _new_id() -> str:
    """Return a random id as Kafka writes it: 16 bytes in URL-safe base64. It must not look like an option."""
    while True:
        value = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not value.startswith("-"):
            return value


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    own = Path(home) / "bin" / "java" if home else None
    return str(own) if own and os.access(own, os.X_OK) else tool("java", JAVA)


def _jvm(java: str, jars: Path) -> tuple[str, ...]:
    # one collector thread and the quick compiler first: the machine is shared with what is tested
    memory = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC")
    return (java, *memory, "-Dlog4j2.configurationFile=log4j2.properties", "-cp", f"{jars}/*")


def _env(folder: Path) -> dict[str, str]:
    """Return an environment without the caller's Java options."""
    return {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
