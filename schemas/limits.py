"""Every bound that a caller can meet, in one place: the JSON Schemas, OpenAPI and the problems quote these."""

from typing import Final

EVENT_BYTES: Final = 256 * 1024  # one event on the wire; longer texts are documents (design, invariant 11)
BATCH_EVENTS: Final = 500  # events in one POST
BATCH_BYTES: Final = 4 * 1024 * 1024  # bytes in one POST
UNIT_TEXT_CHARS: Final = 32_000  # one unit; a longer text is a document of several parts
TITLE_CHARS: Final = 500
ID_CHARS: Final = 200
NAME_CHARS: Final = 200
ALIASES: Final = 64
CLAIMS: Final = 32
ENTITY_LINKS: Final = 64
FILE_REFS: Final = 64
METADATA_KEYS: Final = 32
METADATA_VALUE_CHARS: Final = 2_000
DOCUMENT_PARTS: Final = 20_000

QUESTION_CHARS_MIN: Final = 3  # a shorter question gets an empty answer, said as such
QUESTION_CHARS: Final = 4_000
RESULTS_DEFAULT: Final = 5
RESULTS: Final = 50
BUDGET_TOKENS_DEFAULT: Final = 1_500
BUDGET_TOKENS_MIN: Final = 50
BUDGET_TOKENS: Final = 20_000
WAIT_MS: Final = 10_000  # longest wait for min_token
SCOPES_IN_QUESTION: Final = 64
SELECTED_UNITS: Final = 1_000  # ids named one by one in a command; more are chosen by scope or source
