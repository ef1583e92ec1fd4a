"""Weaviate on loopback: one node, built once by the Go tool-chain from its published module.

Measured: some 3 minutes to build on two cores, a program of 169 MB; serves 10 s after its start.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from compose.local.children import Command
from compose.native.installing import OnProgress, installed, run, tool
from compose.native.ports import LOOPBACK, free_ports
from compose.native.server import LOG, Server, answers_ok, made

VERSION: Final = "1.35.2"
MODULE: Final = f"github.com/weaviate/weaviate/cmd/weaviate-server@v{VERSION}"
PROGRAM: Final = "weaviate-server"
GO: Final = "install Go 1.21 or later (it fetches the 1.25 that Weaviate asks for), e.g. golang-go of your distribution"
BUILD_S: Final = 1_800.0  # 3 minutes on two idle cores
START_S: Final = 90.0  # 3 to 10 s here; after a kill 12 s
STOP_S: Final = 20.0  # it writes what it holds in memory to disk


@dataclass(frozen=True)
class WeaviatePorts:
    """The ports of a node: where clients come, and the first of two pairs of its own, needed even when it is alone.

    On one machine the server itself takes the port after ``raft`` for its calls, and by convention that after ``gossip``
    for data.
    """

    http: int
    grpc: int
    gossip: int
    raft: int

    @classmethod
    def free(cls) -> Self:
        """Choose ports that nobody uses."""
        return cls(*free_ports(1, 1, 2, 2))


class WeaviateServer(Server):
    """A node that runs on its folder. ``url``: HTTP; ``grpc``: HOST:PORT."""

    def __init__(self, command: Command, log: Path, ports: WeaviatePorts) -> None:
        self._http_port = ports.http
        self.url = f"http://{LOOPBACK}:{ports.http}"
        self.grpc = f"{LOOPBACK}:{ports.grpc}"
        own = (ports.gossip, ports.gossip + 1, ports.raft, ports.raft + 1)
        super().__init__(command, (ports.http, ports.grpc, *own), log, self._ready, START_S)

    async def _ready(self) -> bool:
        return await answers_ok(self._http_port, "/v1/.well-known/ready")


async def start_weaviate(
    folder: Path, ports: WeaviatePorts, on_progress: OnProgress = lambda _: None
) -> WeaviateServer:
    """Start a node on the data in ``folder`` (made where it is missing) and wait until it serves.

    Raises ToolMissing (Go, at the first time), FolderInUse, another DataFolderError, PortInUse, NotReady.
    """
    binary = await install_weaviate(on_progress)
    folder = await asyncio.to_thread(made, folder)
    words = (str(binary), "--host", LOOPBACK, "--port", str(ports.http), "--scheme", "http")
    command = Command("Weaviate", words, folder, environment(folder, ports), STOP_S)
    return await WeaviateServer(command, folder / LOG, ports).start()


async def install_weaviate(on_progress: OnProgress = lambda _: None) -> Path:
    """Return the server's program, built where this version is not in the cache yet."""

    async def build(draft: Path) -> None:
        go = tool("go", GO)
        on_progress(f"building Weaviate {VERSION} (some 3 minutes on two cores, once)")
        # The user's Go: its module cache, proxy and temporary folder; but no flags that a project of theirs may need.
        env = {name: value for name, value in os.environ.items() if name not in {"GOFLAGS", "GOOS", "GOARCH"}}
        env |= {"GOBIN": str(draft), "GOWORK": "off", "GO111MODULE": "on"}
        command = Command("The build of Weaviate", (go, "install", "-trimpath", MODULE), draft, env)
        await run(command, draft / "install.log")

    return await installed(f"weaviate-{VERSION}", build, BUILD_S) / PROGRAM


def environment(folder: Path, ports: WeaviatePorts) -> dict[str, str]:
    """Return the server's whole environment, which is its configuration."""
    return {
        "HOME": str(folder),
        "PATH": os.environ.get("PATH", os.defpath),
        "PERSISTENCE_DATA_PATH": str(folder / "data"),
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
        "DEFAULT_VECTORIZER_MODULE": "none",
        "AUTOSCHEMA_ENABLED": "false",  # a property that nobody declared is an error
        "GRPC_PORT": str(ports.grpc),
        "CLUSTER_HOSTNAME": "node1",
        "CLUSTER_IN_LOCALHOST": "true",
        # without an address it takes the machine's first, and ends where that is an IPv6 one
        "CLUSTER_ADVERTISE_ADDR": LOOPBACK,
        "CLUSTER_BIND_ADDR": LOOPBACK,
        "CLUSTER_GOSSIP_BIND_PORT": str(ports.gossip),
        "CLUSTER_DATA_BIND_PORT": str(ports.gossip + 1),
        "RAFT_PORT": str(ports.raft),
        "RAFT_INTERNAL_RPC_PORT": str(ports.raft + 1),
        "RAFT_BOOTSTRAP_EXPECT": "1",
        "DISABLE_TELEMETRY": "true",  # it would call home
        "GO_PROFILING_DISABLE": "true",  # a port more, on every interface
        # 1.35 overlooks what a rare word finds beside frequent ones (weaviate/weaviate, pull requests 11779 and 11780)
        "USE_BLOCKMAX_WAND": "false",
        # 90 % of the disk by default, and then nothing can be written: a laptop's is often fuller
        "DISK_USE_READONLY_PERCENTAGE": "98",
        "LOG_LEVEL": "warning",
    }
