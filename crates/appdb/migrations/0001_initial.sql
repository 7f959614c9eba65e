-- Portable SQL only: text ids, BIGINT microseconds since the epoch, JSON as TEXT, 0/1 in BIGINT for booleans.
-- One statement ends at each semicolon at the end of a line. A released file is never edited: its checksum is checked.

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    username TEXT NOT NULL,
    username_folded TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    must_change_password BIGINT NOT NULL,
    disabled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_login_at BIGINT,
    attributes TEXT NOT NULL
);

CREATE TABLE roles (
    name TEXT NOT NULL PRIMARY KEY,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE role_policies (
    role TEXT NOT NULL REFERENCES roles (name) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    title TEXT NOT NULL,
    expression TEXT NOT NULL,
    description TEXT,
    PRIMARY KEY (role, position)
);

CREATE TABLE user_roles (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role TEXT NOT NULL REFERENCES roles (name) ON DELETE CASCADE,
    PRIMARY KEY (user_id, role)
);
CREATE INDEX user_roles_by_role ON user_roles (role);

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    token_sha256 TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    client_ip TEXT,
    user_agent TEXT,
    preview TEXT
);
CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    token_sha256 TEXT NOT NULL UNIQUE,
    hint TEXT NOT NULL,
    name TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT
);
CREATE INDEX api_keys_by_user ON api_keys (user_id);

CREATE TABLE access_models (
    version BIGINT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by_id TEXT NOT NULL,
    created_by_name TEXT NOT NULL
);

-- No foreign keys: a record outlives the user and the credential that it names.
CREATE TABLE audit (
    sequence BIGINT NOT NULL PRIMARY KEY,
    completes BIGINT UNIQUE,
    at BIGINT NOT NULL,
    actor_id TEXT,
    actor_name TEXT,
    credential_id TEXT,
    via TEXT NOT NULL,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    request_id TEXT NOT NULL,
    client_ip TEXT,
    user_agent TEXT,
    target TEXT,
    detail TEXT NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_actor ON audit (actor_name, sequence);

-- The end of the audit chain: updating this row serialises appends, and its hash shows a chain that was cut short.
CREATE TABLE audit_head (
    id BIGINT NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    hash TEXT NOT NULL
);

CREATE TABLE secrets (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE used_password_hashes (
    sha256 TEXT NOT NULL PRIMARY KEY,
    used_at BIGINT NOT NULL
);

CREATE TABLE login_throttles (
    bucket TEXT NOT NULL PRIMARY KEY,
    failures BIGINT NOT NULL,
    window_start BIGINT NOT NULL,
    blocked_until BIGINT NOT NULL
);
CREATE INDEX login_throttles_by_window ON login_throttles (window_start);

INSERT INTO roles (name, revision, created_at, updated_at) VALUES ('admin', 1, 0, 0);
INSERT INTO audit_head (id, sequence, hash) VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
