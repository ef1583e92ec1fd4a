"""The query service with steered answers as a process: what signals do needs a main thread."""

import sys

import uvicorn

from query.app import create_app
from shared.settings import Settings
from tests.integration.http_service import SteeredAnswers, make_parts

if __name__ == "__main__":
    app = create_app(Settings(heartbeat_s=5), make_parts(SteeredAnswers()))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="info", timeout_graceful_shutdown=10)
