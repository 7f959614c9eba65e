-- Pages of a listing continue after a name: that name and the index must agree on the order, whatever the language of
-- the database, and the order must not change with the operating system's next update of its languages.
ALTER TABLE users ALTER COLUMN username_folded TYPE TEXT COLLATE "C";
ALTER TABLE roles ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE role_policies ALTER COLUMN role TYPE TEXT COLLATE "C";
ALTER TABLE user_roles ALTER COLUMN role TYPE TEXT COLLATE "C";
ALTER TABLE sessions ALTER COLUMN id TYPE TEXT COLLATE "C";
ALTER TABLE api_keys ALTER COLUMN id TYPE TEXT COLLATE "C";
