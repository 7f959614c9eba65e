-- Every committed change raises `epoch`. `epoch_through` is the last audit record of a program that raises it; programs of earlier
-- versions append records beyond it.
ALTER TABLE audit_head ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_head ADD COLUMN epoch_through BIGINT NOT NULL DEFAULT 0;
