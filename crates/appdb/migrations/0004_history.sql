-- The history of the whole access model: binding, marked fields, roles with their policies, and the tests kept with them.
-- Each change holds what it wrote, in full; a state is the last of each as of a change. Nothing is ever removed.
CREATE TABLE changes (
    number BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    by_id TEXT NOT NULL,
    by_name TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT,
    model_version BIGINT NOT NULL
);

CREATE TABLE role_changes (
    role TEXT NOT NULL,
    change BIGINT NOT NULL REFERENCES changes (number),
    deleted BIGINT NOT NULL,
    PRIMARY KEY (role, change)
);
CREATE INDEX role_changes_by_change ON role_changes (change);

CREATE TABLE role_change_policies (
    role TEXT NOT NULL,
    change BIGINT NOT NULL,
    position BIGINT NOT NULL,
    title TEXT NOT NULL,
    expression TEXT NOT NULL,
    description TEXT,
    PRIMARY KEY (role, change, position),
    FOREIGN KEY (role, change) REFERENCES role_changes (role, change)
);

CREATE TABLE test_changes (
    change BIGINT NOT NULL PRIMARY KEY REFERENCES changes (number),
    document TEXT NOT NULL
);

-- What is stored now is where the history begins.
INSERT INTO changes (number, at, by_id, by_name, action, target, model_version)
SELECT 1, (SELECT MAX(applied_at) FROM schema_migrations), '', '', 'upgrade', NULL,
    COALESCE((SELECT MAX(version) FROM access_models), 0);
INSERT INTO role_changes (role, change, deleted) SELECT name, 1, 0 FROM roles;
INSERT INTO role_change_policies (role, change, position, title, expression, description)
SELECT role, 1, position, title, expression, description FROM role_policies;
