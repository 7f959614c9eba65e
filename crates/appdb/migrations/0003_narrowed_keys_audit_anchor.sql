-- What a key may do less than its owner: a CEL expression that each trace must satisfy as well, and a JSON list of tools.
ALTER TABLE api_keys ADD COLUMN policy TEXT;
ALTER TABLE api_keys ADD COLUMN tools TEXT;

-- Where the audit chain begins since its oldest records were removed: the number and hash of the last one removed.
CREATE TABLE audit_anchor (
    id BIGINT NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_anchor (id, sequence, hash) VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');

CREATE INDEX audit_by_actor_id ON audit (actor_id, sequence);
CREATE INDEX audit_by_action ON audit (action, sequence);
