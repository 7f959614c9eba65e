-- Batches of people continue after an id.
ALTER TABLE identities ALTER COLUMN user_id TYPE TEXT COLLATE "C";
