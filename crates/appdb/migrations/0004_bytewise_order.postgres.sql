-- Names are in one order everywhere, as since step 3.
ALTER TABLE role_changes ALTER COLUMN role TYPE TEXT COLLATE "C";
ALTER TABLE role_change_policies ALTER COLUMN role TYPE TEXT COLLATE "C";
