"""The tables of a tenant's knowledge file, and its version."""

import sqlite3

from shared.errors import FolderNewer

VERSION = 2
CHANGES_KEPT = 100_000
"""Rows of ``change`` kept for readers to catch up from; one that is further behind loads its matrices anew."""

# Terms hold no white space, so whatever is not white space belongs to a token; the analysis itself is shared/text.py.
_WORD_SIGNS = "!#$%&()*+,-./:;<=>?@[\\]^_`{|}~"

_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE watermark (
    stage TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (stage, topic, partition)
) WITHOUT ROWID;
CREATE TABLE scope (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, level TEXT NOT NULL, entity_id TEXT NOT NULL,
    passages INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX scope_entity ON scope (entity_id);

-- What events said about units. past = 1: an older revision, kept as history; 2: only its name is kept. active = 1: a part
-- of its document's current revision. A retraction has no body. Ids are never used twice.
CREATE TABLE statement (
    id INTEGER PRIMARY KEY AUTOINCREMENT, unit_id TEXT NOT NULL, revision INTEGER NOT NULL, retraction INTEGER NOT NULL,
    digest TEXT NOT NULL, source TEXT NOT NULL, event_id TEXT NOT NULL, explicit INTEGER NOT NULL,
    recorded INTEGER NOT NULL, position TEXT NOT NULL, content_key TEXT, document_id TEXT, part INTEGER,
    text_digest TEXT, past INTEGER NOT NULL DEFAULT 0, active INTEGER NOT NULL DEFAULT 0, body BLOB, resolution BLOB
);
CREATE INDEX statement_unit ON statement (unit_id);
CREATE INDEX statement_part ON statement (document_id, revision, part) WHERE document_id IS NOT NULL;
CREATE INDEX statement_text ON statement (content_key) WHERE past = 0 AND content_key IS NOT NULL;

-- The live units, as searches filter them. Times: microseconds since 1970.
CREATE TABLE unit (
    id INTEGER PRIMARY KEY, unit_id TEXT NOT NULL UNIQUE, statement INTEGER NOT NULL, passage INTEGER NOT NULL,
    scope INTEGER NOT NULL, type TEXT NOT NULL, revision INTEGER NOT NULL, source TEXT NOT NULL, document_id TEXT,
    title TEXT, begins INTEGER, ends INTEGER, occurred_start INTEGER, occurred_end INTEGER, recorded INTEGER NOT NULL,
    moment INTEGER NOT NULL, start INTEGER NOT NULL, supersedes TEXT, superseded_from INTEGER, superseded_by TEXT,
    session_id TEXT, turn INTEGER
);
CREATE INDEX unit_passage ON unit (passage, unit_id);
CREATE INDEX unit_moment ON unit (scope, moment, unit_id);
CREATE INDEX unit_time ON unit (moment, unit_id);
CREATE INDEX unit_supersedes ON unit (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX unit_turn ON unit (session_id, turn, scope) WHERE turn IS NOT NULL;
CREATE INDEX unit_document ON unit (document_id) WHERE document_id IS NOT NULL;
-- By which keys units are found. about: 0 the unit's subject, 1 a mention or a link; age: minus its moment. In this order
-- the newest unit about a key comes first.
CREATE TABLE incidence (
    key TEXT NOT NULL, about INTEGER NOT NULL, age INTEGER NOT NULL, unit_id TEXT NOT NULL, unit INTEGER NOT NULL,
    PRIMARY KEY (key, about, age, unit_id)
) WITHOUT ROWID;
CREATE INDEX incidence_unit ON incidence (unit);

CREATE TABLE document (
    document_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, parts INTEGER NOT NULL, digest TEXT NOT NULL,
    source TEXT NOT NULL, event_id TEXT NOT NULL
) WITHOUT ROWID;
-- Units that went when the document turned to its present revision: told again when that completion comes again.
CREATE TABLE departed (document_id TEXT NOT NULL, unit_id TEXT NOT NULL, PRIMARY KEY (document_id, unit_id)) WITHOUT ROWID;
CREATE TABLE completion (
    document_id TEXT NOT NULL, revision INTEGER NOT NULL, retraction INTEGER NOT NULL, digest TEXT NOT NULL,
    source TEXT NOT NULL, event_id TEXT NOT NULL, parts INTEGER NOT NULL, hash TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (document_id, revision, digest)
) WITHOUT ROWID;

CREATE TABLE passage (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL UNIQUE, key TEXT NOT NULL UNIQUE, scope INTEGER NOT NULL,
    content_key TEXT NOT NULL, words TEXT NOT NULL, scope_token TEXT NOT NULL
);
CREATE INDEX passage_scope ON passage (scope);
CREATE INDEX passage_text ON passage (content_key);
CREATE VIRTUAL TABLE passage_words USING fts5 (
    words, scope_token, content = 'passage', content_rowid = 'id', tokenize = "ascii tokenchars '{_WORD_SIGNS}'"
);
CREATE VIRTUAL TABLE term USING fts5vocab (passage_words, col);
CREATE TABLE change (seq INTEGER PRIMARY KEY AUTOINCREMENT, passage INTEGER NOT NULL, scope INTEGER NOT NULL, kind TEXT NOT NULL);

CREATE TABLE declared (
    kind TEXT NOT NULL, identity TEXT NOT NULL, revision INTEGER NOT NULL, retraction INTEGER NOT NULL, digest TEXT NOT NULL,
    source TEXT NOT NULL, event_id TEXT NOT NULL, explicit INTEGER NOT NULL, source_id TEXT, target_id TEXT, body BLOB NOT NULL,
    PRIMARY KEY (kind, identity)
) WITHOUT ROWID;
CREATE INDEX declared_source ON declared (source_id) WHERE source_id IS NOT NULL;
CREATE INDEX declared_target ON declared (target_id) WHERE target_id IS NOT NULL;

CREATE TABLE contradiction (
    id TEXT PRIMARY KEY, unit_a TEXT NOT NULL, unit_b TEXT NOT NULL, revision_a INTEGER NOT NULL, revision_b INTEGER NOT NULL,
    difference TEXT NOT NULL, detail TEXT NOT NULL, attribute TEXT NOT NULL, similarity REAL NOT NULL, recorded INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX contradiction_a ON contradiction (unit_a);
CREATE INDEX contradiction_b ON contradiction (unit_b);
"""

# Since version 2. What the store did with each event; what background jobs have done so far.
_LEDGER = """
CREATE TABLE event (
    event_id TEXT NOT NULL, source TEXT NOT NULL, position TEXT NOT NULL, recorded INTEGER NOT NULL, outcome TEXT NOT NULL,
    units TEXT NOT NULL, PRIMARY KEY (event_id, source)
) WITHOUT ROWID;
CREATE TABLE job (id TEXT PRIMARY KEY, requested INTEGER NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
"""


# Since version 2. Vectors of several models; they lie apart from what the keyword search joins: a row with a vector in it
# spans pages. ``model``: those whose vectors are kept, with the length of one; the active one stands in ``meta``.
_VECTORS = """
CREATE TABLE text (
    content_key TEXT NOT NULL, model TEXT NOT NULL, rows INTEGER NOT NULL, vectors BLOB NOT NULL,
    PRIMARY KEY (content_key, model)
);
CREATE TABLE model (name TEXT PRIMARY KEY, dims INTEGER NOT NULL) WITHOUT ROWID;
"""

# Version 1 kept one vector a text: of the last model that met it. Only those of the active one were ever searched.
_FROM_1 = f"""
ALTER TABLE text RENAME TO text_1;
{_VECTORS}
INSERT INTO model SELECT model, length(vectors) / 4 / rows FROM text_1
    WHERE model = (SELECT value FROM meta WHERE key = 'model') LIMIT 1;
INSERT INTO text SELECT content_key, model, rows, vectors FROM text_1 WHERE model IN (SELECT name FROM model);
DROP TABLE text_1;
DELETE FROM meta WHERE key = 'model' AND value NOT IN (SELECT name FROM model);
"""  # noqa: S608 - constants


def check_version(connection: sqlite3.Connection, name: str) -> int:
    """Return the file's schema version, 0 for an empty file. Raises FolderNewer."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise FolderNewer(f"{name} has schema version {version}; this release of Cortex knows up to {VERSION}")
    return int(version)


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Create the tables in an empty file, or those that an older one lacks. Raises FolderNewer."""
    version = check_version(connection, name)
    if version == VERSION:
        return
    wanted = f"{_FROM_1} {_LEDGER}" if version else f"{_TABLES} {_VECTORS} {_LEDGER}"
    connection.executescript(f"BEGIN IMMEDIATE; {wanted} PRAGMA user_version = {VERSION}; COMMIT;")
