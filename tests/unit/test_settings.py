"""Settings that cannot be: `cortex up` names the variable and the limit in one line, and starts nothing."""

import sys

import pytest

from compose.cli import exits
from compose.cli.main import run
from compose.local.supervisor import _environment
from shared.settings import Settings


def test_settings_reach_a_child_process_as_they_were(monkeypatch, tmp_path):
    """Through its environment: paths, secrets, numbers, and lists of things with secrets in them."""
    other = {"url": "http://127.0.0.1:1/v1", "model": "m", "dims": 3, "key": "a secret"}
    settings = Settings(
        data_dir=tmp_path, redis_url="redis://:word@127.0.0.1:1/0", drain_s=1.5, other_embedders=[other]
    )
    for name, value in _environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings


@pytest.mark.parametrize(
    ("arguments", "variables", "named"),
    [
        (["--port", "99999"], {}, "CORTEX_HTTP_PORT: Input should be less than or equal to 65535"),
        (["--port", "65534"], {}, "CORTEX_CACHE_PORT"),
        ([], {"CORTEX_QUERY_THREADS": "0"}, "CORTEX_QUERY_THREADS: Input should be greater than or equal to 1"),
        ([], {"CORTEX_PARTITIONS": "many"}, "CORTEX_PARTITIONS"),
        (["--tenant", "A/B"], {}, "CORTEX_TENANT"),
        ([], {"CORTEX_REDIS_URL": "127.0.0.1:6379"}, "CORTEX_REDIS_URL: it must begin with one of redis://"),
        ([], {"CORTEX_REDIS_URL": "redis://127.0.0.1:port/0"}, "CORTEX_REDIS_URL: its port is no number"),
        ([], {"CORTEX_WEAVIATE_URL": "http://127.0.0.1:99999"}, "CORTEX_WEAVIATE_URL: its port is no number"),
        ([], {"CORTEX_WEAVIATE_GRPC": "127.0.0.1:99999"}, "CORTEX_WEAVIATE_GRPC: its port is no number"),
        ([], {"CORTEX_KAFKA_BOOTSTRAP": "one:9092,two:99999"}, "CORTEX_KAFKA_BOOTSTRAP: its port is no number"),
        ([], {"CORTEX_KAFKA_BOOTSTRAP": ""}, "CORTEX_KAFKA_BOOTSTRAP: String should match"),
        ([], {"CORTEX_SEARCH_DEADLINE_MS": "5000"}, "search_deadline_ms must be smaller than answer_deadline_ms"),
    ],
)
def test_a_setting_out_of_its_limits_is_refused_in_one_line(arguments, variables, named, monkeypatch, capsys, tmp_path):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["cortex", "up", "--data-dir", str(tmp_path / "data"), *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    told = capsys.readouterr().err
    assert ended.value.code == exits.REFUSED
    assert named in told
    assert told.count("\n") == 1
    assert not (tmp_path / "data").exists()
