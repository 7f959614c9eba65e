-- The last revision that any role was given. A counter of each role would begin anew when a role is deleted and made
-- again: the tag of a role that is gone would then stand for one that its holder never saw.
CREATE TABLE role_revision (
    id BIGINT NOT NULL PRIMARY KEY,
    last BIGINT NOT NULL
);

INSERT INTO role_revision (id, last) SELECT 1, MAX(revision) FROM roles;
