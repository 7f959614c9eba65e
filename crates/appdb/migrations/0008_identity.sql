-- People authenticated by an identity provider: their claims as of the last sign-in, and the attributes that the mapping gives them.
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    provider TEXT NOT NULL,
    user_id TEXT NOT NULL UNIQUE REFERENCES users (id) ON DELETE CASCADE,
    claims TEXT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    attributes TEXT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_by_provider ON identities (provider, user_id);

-- The roles that the mapping gives them, apart from those that administrators assign.
CREATE TABLE mapped_user_roles (
    user_id TEXT NOT NULL REFERENCES identities (user_id) ON DELETE CASCADE,
    role TEXT NOT NULL REFERENCES roles (name) ON DELETE CASCADE,
    PRIMARY KEY (user_id, role)
);
CREATE INDEX mapped_user_roles_by_role ON mapped_user_roles (role);

-- The mappings of all providers, as each change left them.
CREATE TABLE mapping_changes (
    change BIGINT NOT NULL PRIMARY KEY REFERENCES changes (number),
    document TEXT NOT NULL
);

-- Digests of the cookies of ended sign-ins and of accepted logout tokens, against replay, until these expire.
CREATE TABLE consumed_tokens (
    sha256 TEXT NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX consumed_tokens_by_expiry ON consumed_tokens (expires_at);

-- The provider that the person of a session signed in with, and the id of the session there; NULL after a sign-in with a password.
ALTER TABLE sessions ADD COLUMN provider TEXT;
ALTER TABLE sessions ADD COLUMN provider_session TEXT;

-- When access ended: digests of the issuer with a person or with a session there. Sign-ins that began until `ended_at` are refused, and
-- access tokens that were issued until `tokens_until`, by the clock of the provider.
CREATE TABLE provider_logouts (
    sha256 TEXT NOT NULL PRIMARY KEY,
    ended_at BIGINT NOT NULL,
    tokens_until BIGINT NOT NULL
);
CREATE INDEX provider_logouts_by_time ON provider_logouts (tokens_until);

-- Digests of links that sign in a user once.
CREATE TABLE break_glass_links (
    sha256 TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX break_glass_links_by_user ON break_glass_links (user_id);

-- Refresh tokens of sessions, encrypted. `due_at` is when the provider is asked again; a process that asks moves it ahead, so that no
-- other process uses the token at the same time.
CREATE TABLE refresh_tokens (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    token TEXT NOT NULL,
    due_at BIGINT NOT NULL
);
CREATE INDEX refresh_tokens_by_time ON refresh_tokens (due_at);

-- Users of kind `service` are programs: they have no password. `owner_id` is the person who answers for one. With `owner_role`, it has
-- access only while this person has that role.
ALTER TABLE users ADD COLUMN kind TEXT NOT NULL DEFAULT 'person';
ALTER TABLE users ADD COLUMN owner_id TEXT REFERENCES users (id) ON DELETE SET NULL;
ALTER TABLE users ADD COLUMN owner_role TEXT;
CREATE INDEX users_by_owner ON users (owner_id);

-- Where an API key was last used.
ALTER TABLE api_keys ADD COLUMN last_client_ip TEXT;
ALTER TABLE api_keys ADD COLUMN last_user_agent TEXT;
CREATE INDEX api_keys_by_hint ON api_keys (hint);
