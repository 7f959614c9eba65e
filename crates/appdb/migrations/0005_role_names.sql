-- Names of roles may hold upper case. Two that differ by case alone could be taken for one another; the index also finds
-- a role whatever the case in which it is asked for.
CREATE UNIQUE INDEX roles_by_folded_name ON roles (lower(name));
