-- Indexes for searches of the log by target and by credential.
CREATE INDEX audit_by_target ON audit (target, sequence);
CREATE INDEX audit_by_credential ON audit (credential_id, sequence);
