"""The files of compose/docker say what the code says: settings, ports, topics, versions and commands."""

import base64
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from compose.cli import main, members, servers
from compose.local.broker_epoch import STOP_MARGIN_S
from compose.local.ingest_health import create_health_app
from compose.local.query_process import FAREWELL_S
from compose.local.supervisor import INGEST_MARGIN_S, QUERY_GRACE_S
from compose.native import kafka as native_kafka
from compose.native import weaviate as native_weaviate
from ingest.health import IngestHealth
from ingest.metrics import IngestMetrics
from query.access import Access, Right, hash_token, read_tokens
from query.routes_health import HEALTH
from shared.embedders import minilm, minilm_graph
from shared.settings import Settings
from shared.topics import wanted_topics

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "compose" / "docker"
PROCESSES = ("topics", "ingest", "query")
SECRETS = {"KAFKA_CLUSTER_ID": "Akd-6IXmUYiHVFliGzh4gA", "REDIS_PASSWORD": "of-this-test"}
BYTES = {"m": 1, "g": 1024}
NAMED = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")


def pairs(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose_file(given: dict[str, str]) -> dict[str, Any]:
    """Read compose.yaml as Docker Compose would with these variables."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        found = given.get(name, "")
        assert found or kind == "-", f"{name} is not set: {rest}"
        return found or rest

    return yaml.safe_load(NAMED.sub(value, (FOLDER / "compose.yaml").read_text(encoding="utf-8")))


EXAMPLE = pairs(FOLDER / ".env.example")
COMPOSED = compose_file(EXAMPLE | SECRETS)
SERVICES: dict[str, dict[str, Any]] = COMPOSED["services"]
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
PROXY = (FOLDER / "haproxy.cfg").read_text(encoding="utf-8")
PROMETHEUS = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def megabytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([mg])", text).groups()
    return int(number) * BYTES[unit]


def settings_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for variable, value in SERVICES[name]["environment"].items():
        monkeypatch.setenv(variable, str(value))
    return Settings()


def commands() -> set[tuple[str, ...]]:
    """Return every command of the command line that a cluster's process may be."""
    app = typer.Typer()
    members.register(app)
    servers.register(app)
    own = {(info.name or info.callback.__name__,) for info in app.registered_commands if info.callback}
    for group in app.registered_groups:
        own |= {
            (group.name, info.name or info.callback.__name__)
            for info in group.typer_instance.registered_commands
            if info.callback
        }
    return own


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_gets_variables_that_are_settings_and_values_that_can_be_read(name, monkeypatch):
    variables = {variable for variable in SERVICES[name]["environment"] if variable.startswith("CORTEX_")}
    strange = {
        variable for variable in variables if variable.removeprefix("CORTEX_").lower() not in Settings.model_fields
    }
    assert not strange
    settings = settings_of(name, monkeypatch)
    assert (settings.store, settings.kafka_bootstrap) == ("weaviate", "kafka:9092")


def test_each_cortex_variable_of_the_example_is_a_setting_and_reaches_the_processes():
    ours = {name for name in EXAMPLE if name.startswith("CORTEX_")}
    assert ours <= set(SERVICES["ingest"]["environment"])
    assert {name.removeprefix("CORTEX_").lower() for name in ours} <= set(Settings.model_fields)


def test_every_variable_of_the_compose_file_stands_in_the_example():
    used = {match[1] for match in NAMED.finditer((FOLDER / "compose.yaml").read_text(encoding="utf-8"))}
    assert used == set(EXAMPLE)


@pytest.mark.parametrize("name", SECRETS)
def test_what_each_installation_must_choose_has_no_value_to_copy_and_no_default(name):
    assert EXAMPLE[name] == ""
    with pytest.raises(AssertionError, match=f"{name} is not set"):
        compose_file(EXAMPLE | SECRETS | {name: ""})


def test_all_processes_are_told_the_same():
    assert SERVICES["topics"]["environment"] == SERVICES["ingest"]["environment"] == SERVICES["query"]["environment"]


def test_each_process_runs_a_command_that_exists():
    assert {tuple(SERVICES[name]["command"]) for name in PROCESSES} == {("topics", "apply"), ("ingest",), ("query",)}
    assert {tuple(SERVICES[name]["command"]) for name in PROCESSES} <= commands()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert 'ENTRYPOINT ["cortex"]' in DOCKERFILE
    assert scripts["cortex"] == f"{main.__name__}:run"


def test_addresses_name_services_and_the_ports_on_which_they_listen(monkeypatch):
    settings = settings_of("ingest", monkeypatch)
    listeners = SERVICES["kafka"]["environment"]["KAFKA_LISTENERS"]
    assert "PLAINTEXT://:9092" in listeners.split(",")
    assert SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{settings.kafka_bootstrap}"
    http = SERVICES["weaviate"]["command"][SERVICES["weaviate"]["command"].index("--port") + 1]
    assert settings.weaviate_url == f"http://weaviate:{http}"
    assert settings.weaviate_grpc == f"weaviate:{SERVICES['weaviate']['environment']['GRPC_PORT']}"
    assert settings.cache_url == f"redis://:{SECRETS['REDIS_PASSWORD']}@redis:6379/0"


def test_the_ports_of_processes_are_the_defaults_everywhere(monkeypatch):
    settings = settings_of("query", monkeypatch)
    assert f"EXPOSE {settings.http_port} {settings.ingest_port}" in DOCKERFILE
    assert f":{settings.http_port}/readyz" in str(SERVICES["query"]["healthcheck"]["test"])
    assert f":{settings.ingest_port}/readyz" in str(SERVICES["ingest"]["healthcheck"]["test"])
    assert f"query:{settings.http_port}" in PROXY
    assert SERVICES["proxy"]["ports"] == [f"127.0.0.1:{settings.http_port}:{settings.http_port}"]


def test_only_the_proxy_is_published_and_on_loopback_unless_told_otherwise():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    assert EXAMPLE["PUBLISH"].startswith("127.0.0.1:")
    assert COMPOSED["networks"]["inside"] == {"internal": True}
    assert [name for name, service in SERVICES.items() if service["networks"] != ["inside"]] == ["proxy"]


def test_topics_fit_the_one_broker_and_the_processes_have_partitions(monkeypatch):
    settings = settings_of("topics", monkeypatch)
    table = wanted_topics(settings.partitions, settings.replication, settings.topic_prefix)
    brokers = 1
    assert all(topic.replication <= brokers for topic in table)
    assert int(EXAMPLE["INGEST_REPLICAS"]) <= settings.partitions
    assert SERVICES["ingest"]["deploy"]["replicas"] == int(EXAMPLE["INGEST_REPLICAS"])
    assert SERVICES["kafka"]["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_broker_is_set_as_the_native_one_where_we_rest_on_it():
    lines = native_kafka.properties(Path("data"), native_kafka.KafkaPorts(9092, 9093)).splitlines()
    native = dict(line.split("=", 1) for line in lines)
    ours = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in SERVICES["kafka"]["environment"].items()
        if name not in {"CLUSTER_ID", "KAFKA_HEAP_OPTS"}
    }
    assert ours.keys() <= native.keys()
    places = {"listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs"}
    assert {name: ours[name] for name in ours.keys() - places} == {name: native[name] for name in ours.keys() - places}
    assert ours["log.message.timestamp.type"] == "LogAppendTime"


def test_weaviate_is_set_as_the_native_one_where_we_rest_on_it():
    native = native_weaviate.environment(Path("data"), native_weaviate.WeaviatePorts(8080, 50051, 1, 3))
    ours = {name: str(value) for name, value in SERVICES["weaviate"]["environment"].items() if name != "GOMEMLIMIT"}
    differing = {name for name, value in ours.items() if native.get(name) != value}
    assert differing == {"PERSISTENCE_DATA_PATH"}


def test_images_are_pinned_and_of_the_versions_that_are_tested():
    images = {name: service["image"] for name, service in SERVICES.items() if name not in PROCESSES}
    images["base"] = re.search(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)[1]
    loose = {name: image for name, image in images.items() if not re.search(r":v?\d+\.\d+\.\d+", image)}
    assert not loose
    assert images["kafka"].endswith(f":{native_kafka.VERSION}")
    assert images["weaviate"].endswith(f":{native_weaviate.VERSION}")
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert {SERVICES[name]["image"] for name in PROCESSES} == {f"cortex:{release}"}


@pytest.mark.parametrize("named", SERVICES.items(), ids=[f"the {name} service" for name in SERVICES])
def test_each_service_is_watched_limited_and_started_again(named):
    name, service = named
    assert service["restart"] == ("on-failure" if name == "topics" else "unless-stopped")
    limits = service["deploy"]["resources"]["limits"]
    assert float(limits["cpus"]) > 0
    assert megabytes(limits["memory"]) >= 256
    if name == "topics":
        assert service["healthcheck"] == {"disable": True}
        return
    check = service["healthcheck"]
    assert check["test"][0] in {"CMD", "CMD-SHELL"}
    assert seconds(check["timeout"]) < seconds(check["interval"])
    assert seconds(service["stop_grace_period"]) > 0


def test_programs_have_less_memory_for_their_heap_than_they_are_given():
    heap = megabytes(re.search(r"-Xmx(\d+m)", SERVICES["kafka"]["environment"]["KAFKA_HEAP_OPTS"])[1])
    assert heap < megabytes(SERVICES["kafka"]["deploy"]["resources"]["limits"]["memory"])
    go = int(SERVICES["weaviate"]["environment"]["GOMEMLIMIT"].removesuffix("GiB")) * 1024
    assert go < megabytes(SERVICES["weaviate"]["deploy"]["resources"]["limits"]["memory"])
    words = SERVICES["redis"]["command"]
    data = int(words[words.index("--maxmemory") + 1].removesuffix("mb"))
    assert data < megabytes(SERVICES["redis"]["deploy"]["resources"]["limits"]["memory"])


def test_processes_have_the_time_to_end_in_order(monkeypatch):
    ingest = settings_of("ingest", monkeypatch)
    grace = seconds(SERVICES["ingest"]["stop_grace_period"])
    assert grace > ingest.drain_s + max(INGEST_MARGIN_S, STOP_MARGIN_S)
    assert seconds(SERVICES["query"]["stop_grace_period"]) > max(QUERY_GRACE_S, FAREWELL_S)
    assert seconds(SERVICES["proxy"]["stop_grace_period"]) >= seconds(SERVICES["query"]["stop_grace_period"])
    assert seconds(SERVICES["kafka"]["stop_grace_period"]) > native_kafka.STOP_S
    assert seconds(SERVICES["weaviate"]["stop_grace_period"]) > native_weaviate.STOP_S


@pytest.mark.parametrize(("job", "setting"), [("cortex-ingest", "ingest_port"), ("cortex-query", "http_port")])
def test_prometheus_finds_every_process_at_the_port_and_path_of_its_figures(job, setting, monkeypatch):
    config = next(one for one in PROMETHEUS["scrape_configs"] if one["job_name"] == job)
    (found,) = config["dns_sd_configs"]
    service = job.removeprefix("cortex-")
    assert (found["names"], found["port"]) == ([service], getattr(settings_of(service, monkeypatch), setting))
    health = create_health_app(IngestHealth(IngestMetrics()), Access("demo", None))
    paths = {
        "ingest": {route.path for route in health.routes},
        "query": {one.path for one in HEALTH if one.method == "GET"},
    }
    assert config["metrics_path"] in paths[service]
    secret = config["authorization"]["credentials_file"]
    assert secret == f"/run/secrets/{SERVICES['prometheus']['secrets'][0]}"


def test_the_proxy_asks_each_process_whether_it_is_ready_and_keeps_nobody_to_one():
    assert "http-check send meth GET uri /readyz" in PROXY
    assert {one.path for one in HEALTH} >= {"/readyz"}
    assert re.search(r"balance (leastconn|roundrobin)", PROXY)
    assert not re.search(r"^\s*(cookie|stick|hash-type)|balance (source|uri|hdr)", PROXY, re.MULTILINE)
    room = int(re.search(r"server-template \S+ (\d+) query:", PROXY)[1])
    assert int(EXAMPLE["QUERY_REPLICAS"]) <= room


def test_the_proxy_passes_streams_on_as_they_come_and_waits_for_many_heartbeats(monkeypatch):
    """HAProxy holds an answer back only when told to; a wait of its own must not end a stream that lives."""
    settings = settings_of("query", monkeypatch)
    assert not re.search(r"http-buffer-request|compression|filter |cache-use|wait-for-body", PROXY)
    for side in ("client", "server"):
        wait = seconds(re.search(rf"timeout {side}\s+(\S+)", PROXY)[1])
        assert wait > 4 * settings.heartbeat_s
        assert wait > settings.answer_deadline_ms / 1000
    tried_again = re.search(r"retry-on (.*)", PROXY)[1].split()
    assert tried_again == ["conn-failure"], "an event may have been taken by a process that did not answer"


def test_the_image_has_the_packages_that_are_tested_and_what_a_cluster_needs_beside():
    def versions(path: Path) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9_.-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))

    tested, image = versions(ROOT / "requirements.lock"), versions(FOLDER / "requirements.lock")
    assert image.items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    served = ("weaviate", "otel")  # the extras that a cluster uses
    wanted = project["project"]["dependencies"] + [
        one for extra in served for one in project["project"]["optional-dependencies"][extra]
    ]
    assert {re.match(r"[\w.-]+", one)[0].lower() for one in wanted} <= image.keys()
    tools = {re.match(r"[\w.-]+", one)[0].lower() for one in project["dependency-groups"]["build"]}
    assert tools <= versions(FOLDER / "build.lock").keys()
    assert not tools & image.keys(), "tools that build have no place in the image"


def test_the_image_is_installed_by_hash_and_runs_as_nobody_in_particular():
    installs = [line for line in DOCKERFILE.splitlines() if "pip" in line and ".lock" in line and "install" in line]
    assert len(installs) == 2
    assert all("--require-hashes" in line for line in installs)
    user = DOCKERFILE.rindex("\nUSER cortex\n")
    assert user > DOCKERFILE.rindex("\nRUN ")
    for name in PROCESSES:
        assert SERVICES[name]["read_only"]
        assert SERVICES[name]["cap_drop"] == ["ALL"]


def test_the_image_holds_every_package_of_the_wheel_and_the_network_that_is_made_at_its_build():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    copied = re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE)
    assert sorted(copied) == sorted(wheel["wheel"]["packages"])
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in (*copied, "pyproject.toml", "README.md", "LICENSE")} <= set(ignored)
    assert "minilm_graph.fused(Path(minilm.model_path()).read_bytes(), minilm.WEIGHTS_SHA256)" in DOCKERFILE
    assert callable(minilm_graph.fused)
    assert Path(minilm.model_path()).is_file()
    kept = re.findall(r"XDG_CACHE_HOME=(\S+)", DOCKERFILE)
    assert len(kept) == 2, "where it is written at the build, and where it is looked for"
    assert len(set(kept)) == 1
    assert f"chmod -R a+rX {kept[0]}" in DOCKERFILE, "it is written for its owner alone"


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    for name in ("prepare.sh", ".env.example"):
        shutil.copy(FOLDER / name, tmp_path)
    return tmp_path


def prepare(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["sh", str(folder / "prepare.sh"), *words], check=True, capture_output=True, text=True, timeout=30
    )
    return done.stdout.strip()


def test_prepare_fills_in_what_must_be_chosen_and_makes_tokens_that_cortex_takes(prepared):
    told = prepare(prepared)
    made = pairs(prepared / ".env")
    assert compose_file(made)["services"].keys() == SERVICES.keys()
    assert made.keys() == EXAMPLE.keys()
    assert len(base64.urlsafe_b64decode(made["KAFKA_CLUSTER_ID"] + "==")) == 16
    assert not made["KAFKA_CLUSTER_ID"].startswith("-")
    assert re.fullmatch(r"[0-9a-f]{48}", made["REDIS_PASSWORD"])
    tokens = read_tokens(prepared / "secrets" / "tokens.jsonl")
    first = tokens[hash_token(told.rsplit(" ", 1)[1])]
    assert (first.tenant, first.principal, first.rights) == ("demo", "*", frozenset(Right))
    scraper = tokens[hash_token((prepared / "secrets" / "prometheus_token").read_text())]
    assert scraper.rights == {Right.ADMIN}
    assert {path.name for path in (prepared / "secrets").iterdir()} == {
        Path(secret["file"]).name for secret in COMPOSED["secrets"].values()
    }


def test_prepare_leaves_what_is_there_and_adds_a_token_when_asked(prepared):
    prepare(prepared)
    before = {path: path.read_bytes() for path in prepared.rglob("*") if path.is_file()}
    assert prepare(prepared) == ""
    assert {path: path.read_bytes() for path in prepared.rglob("*") if path.is_file()} == before
    token = prepare(prepared, "token", "person-ana", "ask", "publish")
    added = read_tokens(prepared / "secrets" / "tokens.jsonl")[hash_token(token)]
    assert (added.principal, added.rights) == ("person-ana", {Right.ASK, Right.PUBLISH})


def test_secrets_are_for_their_owner_alone_and_kept_out_of_git_and_of_the_image(prepared):
    prepare(prepared)
    assert (prepared / "secrets").stat().st_mode & 0o077 == 0
    assert (prepared / ".env").stat().st_mode & 0o077 == 0
    assert {".env", "secrets/"} <= set((FOLDER / ".gitignore").read_text().splitlines())
    assert {"compose/docker/.env", "compose/docker/secrets"} <= set(
        (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    )
