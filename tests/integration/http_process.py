"""The query service with steered answers as a process: what signals do needs a main thread. SIGUSR1 releases ``late``."""

import signal
import sys

import uvicorn

from query.app import create_app
from shared.settings import Settings
from tests.integration.http_service import SteeredAnswers, make_parts

if __name__ == "__main__":
    answers = SteeredAnswers()
    signal.signal(signal.SIGUSR1, lambda *_: answers.released.set())
    app = create_app(Settings(heartbeat_s=5), make_parts(answers))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="info", timeout_graceful_shutdown=10)
