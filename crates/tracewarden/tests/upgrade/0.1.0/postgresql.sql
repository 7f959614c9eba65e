CREATE TABLE public.access_models (
    version bigint NOT NULL,
    document text NOT NULL,
    created_at bigint NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL
);
CREATE TABLE public.api_keys (
    id text NOT NULL COLLATE pg_catalog."C",
    token_sha256 text NOT NULL,
    hint text NOT NULL,
    name text NOT NULL,
    user_id text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint,
    policy text,
    tools text
);
CREATE TABLE public.audit (
    sequence bigint NOT NULL,
    completes bigint,
    at bigint NOT NULL,
    actor_id text,
    actor_name text,
    credential_id text,
    via text NOT NULL,
    action text NOT NULL,
    outcome text NOT NULL,
    request_id text NOT NULL,
    client_ip text,
    user_agent text,
    target text,
    detail text NOT NULL,
    previous_hash text NOT NULL,
    hash text NOT NULL
);
CREATE TABLE public.audit_anchor (
    id bigint NOT NULL,
    sequence bigint NOT NULL,
    hash text NOT NULL
);
CREATE TABLE public.audit_head (
    id bigint NOT NULL,
    sequence bigint NOT NULL,
    hash text NOT NULL
);
CREATE TABLE public.changes (
    number bigint NOT NULL,
    at bigint NOT NULL,
    by_id text NOT NULL,
    by_name text NOT NULL,
    action text NOT NULL,
    target text,
    model_version bigint NOT NULL
);
CREATE TABLE public.login_throttles (
    bucket text NOT NULL,
    failures bigint NOT NULL,
    window_start bigint NOT NULL,
    blocked_until bigint NOT NULL
);
CREATE TABLE public.role_change_policies (
    role text NOT NULL COLLATE pg_catalog."C",
    change bigint NOT NULL,
    "position" bigint NOT NULL,
    title text NOT NULL,
    expression text NOT NULL,
    description text
);
CREATE TABLE public.role_changes (
    role text NOT NULL COLLATE pg_catalog."C",
    change bigint NOT NULL,
    deleted bigint NOT NULL
);
CREATE TABLE public.role_policies (
    role text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    title text NOT NULL,
    expression text NOT NULL,
    description text
);
CREATE TABLE public.role_revision (
    id bigint NOT NULL,
    last bigint NOT NULL
);
CREATE TABLE public.roles (
    name text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE public.schema_migrations (
    version bigint NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at bigint NOT NULL
);
CREATE TABLE public.secrets (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.sessions (
    id text NOT NULL COLLATE pg_catalog."C",
    token_sha256 text NOT NULL,
    user_id text NOT NULL,
    created_at bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    client_ip text,
    user_agent text,
    preview text
);
CREATE TABLE public.test_changes (
    change bigint NOT NULL,
    document text NOT NULL
);
CREATE TABLE public.used_password_hashes (
    sha256 text NOT NULL,
    used_at bigint NOT NULL
);
CREATE TABLE public.user_roles (
    user_id text NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.users (
    id text NOT NULL,
    username text NOT NULL,
    username_folded text NOT NULL COLLATE pg_catalog."C",
    password_hash text NOT NULL,
    must_change_password bigint NOT NULL,
    disabled bigint NOT NULL,
    created_at bigint NOT NULL,
    last_login_at bigint,
    attributes text NOT NULL
);
INSERT INTO public.access_models VALUES (1, '{"binding":{"database":"otel","table":"otel_traces","trace_id":"TraceId","span_id":"SpanId","timestamp":"Timestamp","parent_span_id":"ParentSpanId","trace_index":null,"display":{"name":null,"service":null,"duration":null,"status":null,"kind":null}},"fields":[]}', 1795382060403077, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin');
INSERT INTO public.access_models VALUES (2, '{"binding":{"database":"otel","table":"otel_traces","trace_id":"TraceId","span_id":"SpanId","timestamp":"Timestamp","parent_span_id":"ParentSpanId","trace_index":null,"display":{"name":null,"service":null,"duration":null,"status":null,"kind":null}},"fields":[{"map":"SpanAttributes","name":"team","logical":"string","column_type":"String","source":"map_key","filterable":true,"policy":true},{"map":"SpanAttributes","name":"size","logical":"number","column_type":"String","source":"map_key","filterable":true,"policy":false},{"map":"SpanAttributes","name":"secret.label","logical":"string","column_type":"String","source":"map_key","filterable":false,"policy":true},{"map":null,"name":"ServiceName","logical":"string","column_type":"LowCardinality(String)","source":"column","filterable":true,"policy":true},{"map":null,"name":"Duration","logical":"number","column_type":"UInt64","source":"column","filterable":true,"policy":false}]}', 1795382060424631, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin');
INSERT INTO public.api_keys VALUES ('key_kYfdDXdMDB4jsB3Y8sSVAM', 'f25f1322efcff4e7133caba16260bd0a4ecde3b86fc87986e9528f19872ce208', 'twk_ly1l', 'whole', 'usr_6FQYeleTQGR6sHbRSQt7Rl', 1795382062239359, 9214646400000000, NULL, NULL, NULL);
INSERT INTO public.api_keys VALUES ('key_dQ7hRFSTQUG90Pv2QMmNJL', '965f04fbf8c71660635785e2a115925371c9d49d6a3ee15dae8cb8f7e7e21a0a', 'twk_1WqJ', 'narrowed', 'usr_6FQYeleTQGR6sHbRSQt7Rl', 1795382062248421, NULL, NULL, 'ServiceName == "shop"', '["svc_get_trace"]');
INSERT INTO public.audit VALUES (3, NULL, 1795382059994477, NULL, NULL, NULL, 'service', 'audit.prune', 'success', '', NULL, NULL, NULL, '{"through":2,"hash":"6b3d3f5dfe1cea7942b7d17f4c2dd117afc81be1427234818a3fca259467047b","removed":2,"before":"2026-11-22T21:14:18.988506132Z"}', '6b3d3f5dfe1cea7942b7d17f4c2dd117afc81be1427234818a3fca259467047b', '1bfe9d74efabb386a374d1266b122189127fa7c21428a6ad1dffb7e600d7ac48');
INSERT INTO public.audit VALUES (4, NULL, 1795382060326125, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', NULL, 'session', 'login', 'success', 'd16e9515a8bd9e0d1ef174e22f171af0', '127.0.0.1', NULL, NULL, '{"session":"ses_M6jHbLrvdnReLGAzwiVvEB","password_hash_renewed":false}', '1bfe9d74efabb386a374d1266b122189127fa7c21428a6ad1dffb7e600d7ac48', 'c69808d526092cef0900376eaf4110cd79890783ab32ef1dd1e92f76ef5da531');
INSERT INTO public.audit VALUES (5, NULL, 1795382060404126, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'schema.put_binding', 'success', '1c982a545ecaa05b83fa4c552d9a9a89', '127.0.0.1', NULL, NULL, '{"change":2,"version":1,"binding":{"before":null,"after":{"database":"otel","table":"otel_traces","columns":["TraceId","SpanId","Timestamp","ParentSpanId"],"trace_index":null,"display":[null,null,null,null,null]}}}', 'c69808d526092cef0900376eaf4110cd79890783ab32ef1dd1e92f76ef5da531', '4c51aed29a13e06bf0e50019092292eeb06e243d2598bfc8bbddcf47b2fac74c');
INSERT INTO public.audit VALUES (6, NULL, 1795382060425482, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'schema.put_fields', 'success', '9d4417d719dac5c952a6d0abc56977d1', '127.0.0.1', NULL, NULL, '{"change":3,"version":2,"fields":{"added":{"Duration":{"type":"number","filterable":true,"policy":false},"ServiceName":{"type":"string","filterable":true,"policy":true},"SpanAttributes[\"secret.label\"]":{"type":"string","filterable":false,"policy":true},"SpanAttributes[\"size\"]":{"type":"number","filterable":true,"policy":false},"SpanAttributes[\"team\"]":{"type":"string","filterable":true,"policy":true}},"removed":{},"changed":{}}}', '4c51aed29a13e06bf0e50019092292eeb06e243d2598bfc8bbddcf47b2fac74c', '4b0febe3ba98ee24d75c78ad4c3a27a75851f0d32c0779b62053889cb93927da');
INSERT INTO public.audit VALUES (7, NULL, 1795382060445195, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'role.put', 'success', 'b04f8d4bd16ea428546392c8e775a18d', '127.0.0.1', NULL, 'blue', '{"change":4,"revision":{"before":null,"after":2},"created":true,"model_version":2,"policies":{"before":null,"after":[{"title":"Blue","expression":"SpanAttributes[\"team\"] == \"blue\""}]}}', '4b0febe3ba98ee24d75c78ad4c3a27a75851f0d32c0779b62053889cb93927da', '0d9cd88b63627390d6b65687a4c7aad5d77d5aa2953d3e530973577839339a01');
INSERT INTO public.audit VALUES (8, NULL, 1795382060598639, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'role.put', 'success', 'e8f29a72e4dfdabd1da6e6b10fd1744f', '127.0.0.1', NULL, 'red', '{"change":5,"revision":{"before":null,"after":3},"created":true,"model_version":2,"policies":{"before":null,"after":[{"title":"Blue","expression":"SpanAttributes[\"team\"] == \"blue\""}]}}', '0d9cd88b63627390d6b65687a4c7aad5d77d5aa2953d3e530973577839339a01', 'c295989f4bf225a153df69ebbb3d7eb4269cf741a8230ffde0b67bed99dd4b01');
INSERT INTO public.audit VALUES (9, NULL, 1795382060847000, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'role.put', 'success', '898b7636ae7dbbed6ad5e8117d5cdbf6', '127.0.0.1', NULL, 'red', '{"change":6,"revision":{"before":3,"after":4},"created":false,"model_version":2,"policies":{"before":[{"title":"Blue","expression":"SpanAttributes[\"team\"] == \"blue\""}],"after":[{"title":"Red","expression":"SpanAttributes[\"team\"] == \"red\""},{"title":"Own","expression":"SpanAttributes[\"team\"] ==\n  user.attributes.team"}]}}', 'c295989f4bf225a153df69ebbb3d7eb4269cf741a8230ffde0b67bed99dd4b01', 'a9c341e5c90c00fc487ec4b0fffddd230760d7d08cae52fdd5a15d9e9182b5c7');
INSERT INTO public.audit VALUES (10, NULL, 1795382061031059, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'role.put', 'success', '21ee0b1714fb6cc4c67ef19e66afbaa2', '127.0.0.1', NULL, 'gone', '{"change":7,"revision":{"before":null,"after":5},"created":true,"model_version":2,"policies":{"before":null,"after":[{"title":"Blue","expression":"SpanAttributes[\"team\"] == \"blue\""}]}}', 'a9c341e5c90c00fc487ec4b0fffddd230760d7d08cae52fdd5a15d9e9182b5c7', '6ccec633b08e013b3132fae1c669d906cd2cffd4ad54dc11ce4419604f02add9');
INSERT INTO public.audit VALUES (11, NULL, 1795382061139987, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'role.delete', 'success', 'a36a6947c6e43930cfc69b1690447462', '127.0.0.1', NULL, 'gone', '{"change":8,"revision":5,"members":[],"policies":[{"title":"Blue","expression":"SpanAttributes[\"team\"] == \"blue\""}]}', '6ccec633b08e013b3132fae1c669d906cd2cffd4ad54dc11ce4419604f02add9', 'f9ec6beb261e381fa5d4fa103c3dc303bf14a29f69ae53cc9f19850e510c7935');
INSERT INTO public.audit VALUES (12, NULL, 1795382061235011, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.create', 'success', 'ffdbb60f1e45b8a707f0c627c2124a9e', '127.0.0.1', NULL, 'ada', '{"id":"usr_6FQYeleTQGR6sHbRSQt7Rl","roles":["blue"],"attributes":{}}', 'f9ec6beb261e381fa5d4fa103c3dc303bf14a29f69ae53cc9f19850e510c7935', '466d3196d88d8f03c88d179acb4c1067c693152085e1ae871e991e5d3e241aa0');
INSERT INTO public.audit VALUES (13, NULL, 1795382061350691, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', NULL, 'session', 'login', 'success', 'b34c5b727e96b0064747ee0f0adaeb34', '127.0.0.1', NULL, NULL, '{"session":"ses_mBcIlCb9rbED5TtGmXIurJ","password_hash_renewed":false}', '466d3196d88d8f03c88d179acb4c1067c693152085e1ae871e991e5d3e241aa0', '4c7b89d2370fb023f227b20f039b05adcad45c95ff8f6385c3b9c73d9c156d0c');
INSERT INTO public.audit VALUES (14, NULL, 1795382061474396, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'password.change', 'success', 'a342c93f415ac8fb4fe657505d40a865', '127.0.0.1', NULL, NULL, '{"sessions_ended":0}', '4c7b89d2370fb023f227b20f039b05adcad45c95ff8f6385c3b9c73d9c156d0c', '925e8094b9b669c310cb86c4fb35d0bd11ff0980e36dcd33a24e4444290af0d9');
INSERT INTO public.audit VALUES (15, NULL, 1795382061519389, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.update', 'success', 'bf79f3524d9575f9d6609e20e962f0bd', '127.0.0.1', NULL, 'ada', '{"attributes":{"added":{"lead":true,"regions":["eu","us"],"team":"bü''\"\\"},"removed":{},"changed":{}}}', '925e8094b9b669c310cb86c4fb35d0bd11ff0980e36dcd33a24e4444290af0d9', 'a15b5e098e8632a769cc438d8f7b8966b1e4a87d811bad1be889e0ab213d47f3');
INSERT INTO public.audit VALUES (16, NULL, 1795382061623084, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.create', 'success', '9727af6cc88c56658d71b979dfef5204', '127.0.0.1', NULL, 'bob', '{"id":"usr_24u8xK3zMTbSO6ul5elet8","roles":["admin","red"],"attributes":{}}', 'a15b5e098e8632a769cc438d8f7b8966b1e4a87d811bad1be889e0ab213d47f3', 'f4329e38cdd6c188d16f68529a8b2ea911d207389d2b5d3e67bbf54ddf27bc79');
INSERT INTO public.audit VALUES (17, NULL, 1795382061906991, 'usr_24u8xK3zMTbSO6ul5elet8', 'bob', NULL, 'session', 'login', 'success', 'd518c4b1bdf835626058f2c42fd8b1e6', '127.0.0.1', NULL, NULL, '{"session":"ses_EcjhI4l7us6AkIikpceekX","password_hash_renewed":false}', 'f4329e38cdd6c188d16f68529a8b2ea911d207389d2b5d3e67bbf54ddf27bc79', '5cc75c0a199c1c415b8b4d320f16c34ee21134ecf58ca57b21e68ca33c6d2540');
INSERT INTO public.audit VALUES (18, NULL, 1795382062081305, 'usr_24u8xK3zMTbSO6ul5elet8', 'bob', 'ses_EcjhI4l7us6AkIikpceekX', 'session', 'password.change', 'success', '9ee48937dee6e831c07216b304b4195d', '127.0.0.1', NULL, NULL, '{"sessions_ended":0}', '5cc75c0a199c1c415b8b4d320f16c34ee21134ecf58ca57b21e68ca33c6d2540', 'b2a11047e7ad00518aac0bda6bbf33c80a5d45a458e3f663b3b272879d29fe8e');
INSERT INTO public.audit VALUES (19, NULL, 1795382062098191, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.update', 'success', '2c23aa13951a9db6b1fe37872a3a4540', '127.0.0.1', NULL, 'bob', '{"roles":{"before":["admin","red"],"after":["red"]},"disabled":{"before":false,"after":true},"sessions_ended":1}', 'b2a11047e7ad00518aac0bda6bbf33c80a5d45a458e3f663b3b272879d29fe8e', 'cd7799678c6092b3c481f37e0fc80aa4b1d8b6cd2dd00dcc2664e6090a197fa6');
INSERT INTO public.audit VALUES (22, NULL, 1795382062231224, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.delete', 'success', '588ddf349583bd315a50ba7615005cf3', '127.0.0.1', NULL, 'gone', '{"id":"usr_dYdYaz62HEDH24feHlQUDv","roles":[],"attributes":{}}', 'e9ec9aed80f7417f0aa7574c7edbc8baba0648725f3219ca6eed8b5a2fb44f5f', '4bb6a7dbfc00e746075b751853dc1449de8540ce977623635da7676d77987743');
INSERT INTO public.audit VALUES (26, NULL, 1795382062277455, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'api_key.revoke', 'success', 'd1a986c512b8b90b805d2bf7f362e127', '127.0.0.1', NULL, 'key_za39i6iTdof3qLZAMwS24V', '{}', '087f883bd07d89c292093e25b37f4c195aae5bf3df68501b1742e27836927c2b', '6afb72686203dddd70ba029eb44d3ff73a9b4d800d9a051999a00cf336e4af8a');
INSERT INTO public.audit VALUES (28, NULL, 1795382062342329, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'model.import', 'success', 'd2113a982ec923dbcd8425728bdaadf5', '127.0.0.1', NULL, NULL, '{"change":10,"version":2,"roles":{"added":{"later":[{"title":"Blue","expression":"SpanAttributes[\"team\"] == \"blue\""}]},"removed":{},"changed":{}}}', 'e93ac15ad5755e7ced381ea9599e684475f641b06aa54db136a593daff4f66cd', 'aa03d3315cfb44e201fe74281b8d3105db2134cad737497db665685dd4ca2af5');
INSERT INTO public.audit VALUES (30, 29, 1795382062394185, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'traces.get', 'success', '19873ffb3db3ae41a7ecad0c8b33bda9', '127.0.0.1', NULL, NULL, '{"traces":1,"spans":3}', '5970e2ce094adf8c8ba878fb79e661241a69da714f3ca56edf9963636990015b', 'f3d0c2c854fc00fddc3eaae7891a4e6c26ac6dcd9eaaad4f88117c3908d2dcee');
INSERT INTO public.audit VALUES (31, NULL, 1795382062404488, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'traces.get', 'unknown', 'fdb2fec6b0c6640affcf17f8efcfdaa8', '127.0.0.1', NULL, '22222222222222222222222222222222', '{"model_version":2,"roles":{"blue":2}}', 'f3d0c2c854fc00fddc3eaae7891a4e6c26ac6dcd9eaaad4f88117c3908d2dcee', '51a3d207b691c02cc4a9a9d8aa274bc3c838c308dd8191b6fd5f6247f6d4c577');
INSERT INTO public.audit VALUES (33, NULL, 1795382062502515, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'administration', 'denied', '74369b428fd0bafa3e7c59a3a435f681', '127.0.0.1', NULL, '/users', '{"code":"forbidden","method":"GET","route":"/users"}', 'a9ca141f8d88bc47bad5a40b89c14b406e99272f2e97f368f853bb4e24a104d4', '3f554b806f74f6fa174899f3a9dc0dc42a631961802e7a805c707007d5e6680b');
INSERT INTO public.audit VALUES (34, NULL, 1795382062516251, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'traces.query', 'unknown', '378d1f86a2a0497a17436861923a36fb', '127.0.0.1', NULL, NULL, '{"model_version":2,"roles":{"blue":2},"filter":[],"from":"2026-11-21T21:14:22.514301403Z","to":"2026-11-22T21:14:22.514301403Z","limit":50,"view":"spans","columns":null,"first_page":true}', '3f554b806f74f6fa174899f3a9dc0dc42a631961802e7a805c707007d5e6680b', '7429602a0f01fd61ecc2b89631c8758a724b92b7d0f39a86f907f271d906a539');
INSERT INTO public.audit VALUES (38, NULL, 1795382062695815, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_kyM0wyWxJ2yuEb6mdtfQO5', 'session', 'preview.begin', 'success', 'ed53c7b6e8eca6a9d94146a96d5a8119', '127.0.0.1', NULL, NULL, '{"roles":["blue"],"attributes":{}}', '1efa9770ec50b0790b85765190dde290e913a390e65bcf12d7dfe5d663bcf499', '448908fab8b0a53ea7240cfdb5292f0461434504f0dedb7765fb7321f42b08ff');
INSERT INTO public.audit VALUES (39, NULL, 1795382062877056, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', NULL, 'session', 'login', 'success', '68dfd936b236b04d02b5d5e78ce98874', '127.0.0.1', NULL, NULL, '{"session":"ses_hdFFs7xMvoah7XMVvbk3UW","password_hash_renewed":false}', '448908fab8b0a53ea7240cfdb5292f0461434504f0dedb7765fb7321f42b08ff', '2e00330913b7647140f1d28bfb64e7135d395819734313a56d3685a4efbfd0c2');
INSERT INTO public.audit VALUES (20, NULL, 1795382062159351, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.create', 'success', 'db65b0219edee6b206d0dd536ee91ccc', '127.0.0.1', NULL, 'eve', '{"id":"usr_uL9ho62o0RxMcl8Ny71yoO","roles":["red"],"attributes":{}}', 'cd7799678c6092b3c481f37e0fc80aa4b1d8b6cd2dd00dcc2664e6090a197fa6', '62b0006d1c1adb03239a9268660dd73e422f5ff888a0e74d780b9738c9c38987');
INSERT INTO public.audit VALUES (23, NULL, 1795382062242379, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'api_key.create', 'success', '984467bb636d1da9cb79cb1f535d4934', '127.0.0.1', NULL, 'key_kYfdDXdMDB4jsB3Y8sSVAM', '{"name":"whole","expires_at":"2262-01-01T00:00:00Z","policy":null,"tools":null}', '4bb6a7dbfc00e746075b751853dc1449de8540ce977623635da7676d77987743', 'eb7f9946701fee2a9c5c5c126b06b181fbc4d0ee85b0650271853cd6193dd355');
INSERT INTO public.audit VALUES (24, NULL, 1795382062256924, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'api_key.create', 'success', '8c3dcc1a74d179a7e9ebd1defaf47394', '127.0.0.1', NULL, 'key_dQ7hRFSTQUG90Pv2QMmNJL', '{"name":"narrowed","expires_at":null,"policy":"ServiceName == \"shop\"","tools":["svc_get_trace"]}', 'eb7f9946701fee2a9c5c5c126b06b181fbc4d0ee85b0650271853cd6193dd355', '8d76fcce1b491c2d805e53882b0185e1d82130d2acab061188b7fec7d9fe2711');
INSERT INTO public.audit VALUES (27, NULL, 1795382062322878, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'model.import', 'success', '64a8ef2e9406b078f473efd685bd4c5f', '127.0.0.1', NULL, NULL, '{"change":9,"version":2,"tests":{"bytes":182}}', '6afb72686203dddd70ba029eb44d3ff73a9b4d800d9a051999a00cf336e4af8a', 'e93ac15ad5755e7ced381ea9599e684475f641b06aa54db136a593daff4f66cd');
INSERT INTO public.audit VALUES (29, NULL, 1795382062351577, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'traces.get', 'unknown', '19873ffb3db3ae41a7ecad0c8b33bda9', '127.0.0.1', NULL, '11111111111111111111111111111111', '{"model_version":2,"roles":{"blue":2}}', 'aa03d3315cfb44e201fe74281b8d3105db2134cad737497db665685dd4ca2af5', '5970e2ce094adf8c8ba878fb79e661241a69da714f3ca56edf9963636990015b');
INSERT INTO public.audit VALUES (40, NULL, 1795382062883203, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_hdFFs7xMvoah7XMVvbk3UW', 'session', 'logout', 'success', '1441cf5c5e1756110425e6af7f9330b9', '127.0.0.1', NULL, NULL, '{}', '2e00330913b7647140f1d28bfb64e7135d395819734313a56d3685a4efbfd0c2', '97b2e4ce45365d0d25e01d14f3346df37f991dfa9f14011bbc79976bbd2079e8');
INSERT INTO public.audit VALUES (21, NULL, 1795382062216388, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'ses_M6jHbLrvdnReLGAzwiVvEB', 'session', 'user.create', 'success', '5e5fe469fc278d00a5c561c88042b3d4', '127.0.0.1', NULL, 'gone', '{"id":"usr_dYdYaz62HEDH24feHlQUDv","roles":[],"attributes":{}}', '62b0006d1c1adb03239a9268660dd73e422f5ff888a0e74d780b9738c9c38987', 'e9ec9aed80f7417f0aa7574c7edbc8baba0648725f3219ca6eed8b5a2fb44f5f');
INSERT INTO public.audit VALUES (25, NULL, 1795382062269773, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'api_key.create', 'success', '89ef221e4f22ea692fb2f4a43936f1e8', '127.0.0.1', NULL, 'key_za39i6iTdof3qLZAMwS24V', '{"name":"revoked","expires_at":null,"policy":null,"tools":null}', '8d76fcce1b491c2d805e53882b0185e1d82130d2acab061188b7fec7d9fe2711', '087f883bd07d89c292093e25b37f4c195aae5bf3df68501b1742e27836927c2b');
INSERT INTO public.audit VALUES (32, 31, 1795382062431860, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'traces.get', 'not_found', 'fdb2fec6b0c6640affcf17f8efcfdaa8', '127.0.0.1', NULL, NULL, '{"traces":0,"spans":0}', '51a3d207b691c02cc4a9a9d8aa274bc3c838c308dd8191b6fd5f6247f6d4c577', 'a9ca141f8d88bc47bad5a40b89c14b406e99272f2e97f368f853bb4e24a104d4');
INSERT INTO public.audit VALUES (35, 34, 1795382062590156, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ses_mBcIlCb9rbED5TtGmXIurJ', 'session', 'traces.query', 'success', '378d1f86a2a0497a17436861923a36fb', '127.0.0.1', NULL, NULL, '{"traces":1,"spans":3}', '7429602a0f01fd61ecc2b89631c8758a724b92b7d0f39a86f907f271d906a539', '8b6bcf04f9c7baac86e3317d279f1a336633f4d0ea35e489d9bbc68a5390fa59');
INSERT INTO public.audit VALUES (36, NULL, 1795382062648238, 'usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', NULL, 'session', 'login', 'denied', '76e917805869b38358c88466fd7cbf19', '127.0.0.1', NULL, NULL, '{"reason":"wrong_password"}', '8b6bcf04f9c7baac86e3317d279f1a336633f4d0ea35e489d9bbc68a5390fa59', '877d4555b26691f372b095045796756d7a1164eb4bc2916a24c633455695ff61');
INSERT INTO public.audit VALUES (37, NULL, 1795382062688472, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', NULL, 'session', 'login', 'success', '9b840b4f7aeccba506841564d8723b46', '127.0.0.1', NULL, NULL, '{"session":"ses_kyM0wyWxJ2yuEb6mdtfQO5","password_hash_renewed":false}', '877d4555b26691f372b095045796756d7a1164eb4bc2916a24c633455695ff61', '1efa9770ec50b0790b85765190dde290e913a390e65bcf12d7dfe5d663bcf499');
INSERT INTO public.audit_anchor VALUES (1, 2, '6b3d3f5dfe1cea7942b7d17f4c2dd117afc81be1427234818a3fca259467047b');
INSERT INTO public.audit_head VALUES (1, 40, '97b2e4ce45365d0d25e01d14f3346df37f991dfa9f14011bbc79976bbd2079e8');
INSERT INTO public.changes VALUES (1, 1795382057776145, '', '', 'upgrade', NULL, 0);
INSERT INTO public.changes VALUES (2, 1795382060403558, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'schema.put_binding', NULL, 1);
INSERT INTO public.changes VALUES (3, 1795382060424967, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'schema.put_fields', NULL, 2);
INSERT INTO public.changes VALUES (4, 1795382060443552, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'role.put', 'blue', 2);
INSERT INTO public.changes VALUES (5, 1795382060586369, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'role.put', 'red', 2);
INSERT INTO public.changes VALUES (6, 1795382060845350, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'role.put', 'red', 2);
INSERT INTO public.changes VALUES (7, 1795382061029836, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'role.put', 'gone', 2);
INSERT INTO public.changes VALUES (8, 1795382061139198, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'role.delete', 'gone', 2);
INSERT INTO public.changes VALUES (9, 1795382062321527, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'model.import', NULL, 2);
INSERT INTO public.changes VALUES (10, 1795382062341278, 'usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'model.import', NULL, 2);
INSERT INTO public.login_throttles VALUES ('pair:127.0.0.1:dde98b7b609a4d5e57115f918b2d69c0886f9b0d661ef007691773ea6344828a', 1, 1795382062629166, 0);
INSERT INTO public.login_throttles VALUES ('address:127.0.0.1', 1, 1795382058326219, 0);
INSERT INTO public.role_change_policies VALUES ('blue', 4, 0, 'Blue', 'SpanAttributes["team"] == "blue"', NULL);
INSERT INTO public.role_change_policies VALUES ('red', 5, 0, 'Blue', 'SpanAttributes["team"] == "blue"', NULL);
INSERT INTO public.role_change_policies VALUES ('red', 6, 0, 'Red', 'SpanAttributes["team"] == "red"', NULL);
INSERT INTO public.role_change_policies VALUES ('red', 6, 1, 'Own', 'SpanAttributes["team"] ==
  user.attributes.team', 'by
attribute');
INSERT INTO public.role_change_policies VALUES ('gone', 7, 0, 'Blue', 'SpanAttributes["team"] == "blue"', NULL);
INSERT INTO public.role_change_policies VALUES ('later', 10, 0, 'Blue', 'SpanAttributes["team"] == "blue"', NULL);
INSERT INTO public.role_changes VALUES ('admin', 1, 0);
INSERT INTO public.role_changes VALUES ('blue', 4, 0);
INSERT INTO public.role_changes VALUES ('red', 5, 0);
INSERT INTO public.role_changes VALUES ('red', 6, 0);
INSERT INTO public.role_changes VALUES ('gone', 7, 0);
INSERT INTO public.role_changes VALUES ('gone', 8, 1);
INSERT INTO public.role_changes VALUES ('later', 10, 0);
INSERT INTO public.role_policies VALUES ('blue', 0, 'Blue', 'SpanAttributes["team"] == "blue"', NULL);
INSERT INTO public.role_policies VALUES ('red', 0, 'Red', 'SpanAttributes["team"] == "red"', NULL);
INSERT INTO public.role_policies VALUES ('red', 1, 'Own', 'SpanAttributes["team"] ==
  user.attributes.team', 'by
attribute');
INSERT INTO public.role_policies VALUES ('later', 0, 'Blue', 'SpanAttributes["team"] == "blue"', NULL);
INSERT INTO public.role_revision VALUES (1, 6);
INSERT INTO public.roles VALUES ('admin', 1, 0, 0);
INSERT INTO public.roles VALUES ('blue', 2, 1795382060440776, 1795382060440776);
INSERT INTO public.roles VALUES ('red', 4, 1795382060569161, 1795382060842729);
INSERT INTO public.roles VALUES ('later', 6, 1795382062340020, 1795382062340020);
INSERT INTO public.schema_migrations VALUES (1, 'initial', '766cf8e0cc9f74727ff12c4333b46d29903b03e60e957fe51ceea622ce33411a', 1795382057776145);
INSERT INTO public.schema_migrations VALUES (2, 'role_revision', '2d43cde18f1d25c35d8069d39d9727156258c8abb17593a6c62390602ddbabff', 1795382057776145);
INSERT INTO public.schema_migrations VALUES (3, 'narrowed_keys_audit_anchor', '95d9a116bb1c9376f3f85fa08c8e3c20a5d0abe693937c43ba8a3162aa279714', 1795382057776145);
INSERT INTO public.schema_migrations VALUES (4, 'history', '8d96dfec19c8f1dc4b476894556275df866b010dd07239dc9a65dfc2c76242c1', 1795382057776145);
INSERT INTO public.secrets VALUES ('cursor_key', 'd781be1eb6ba93fd5105c6b6c013179ec927bcad5a1b6a7fe95078068357e63a');
INSERT INTO public.secrets VALUES ('login_name_key', '220e9b9ff442a33b295fa5f2a1ee5a4662fe765236e721aa8f17fc77eb16c8c3');
INSERT INTO public.sessions VALUES ('ses_qKIgvOX4mKqwsIEJCt6XJe', '04cdf8c5dafbdc0c8333686575ac0471a44180f8808794144f765ec41d560035', 'usr_HRQEHEc3PeiNShhmk1dXuQ', 1795382058361774, 1795382058361774, '127.0.0.1', NULL, NULL);
INSERT INTO public.sessions VALUES ('ses_M6jHbLrvdnReLGAzwiVvEB', '7efe53501eb2bd5788fad0791ef18680749900ea22147e99dccfdfcbc15bce63', 'usr_HRQEHEc3PeiNShhmk1dXuQ', 1795382060326125, 1795382060326125, '127.0.0.1', NULL, NULL);
INSERT INTO public.sessions VALUES ('ses_mBcIlCb9rbED5TtGmXIurJ', '936fe069a93660ad16ee3b75c5f1dc1fb5bc42b77c080a4ab035df0c505b2756', 'usr_6FQYeleTQGR6sHbRSQt7Rl', 1795382061350691, 1795382061350691, '127.0.0.1', NULL, NULL);
INSERT INTO public.sessions VALUES ('ses_kyM0wyWxJ2yuEb6mdtfQO5', '6d616db5709f129086272cede13e3bfacc8f3ad4802d2064367dec07e7920e2f', 'usr_HRQEHEc3PeiNShhmk1dXuQ', 1795382062688472, 1795382062688472, '127.0.0.1', NULL, '{"roles":["blue"],"attributes":{},"username":null,"user_id":null}');
INSERT INTO public.test_changes VALUES (9, '{"users":[{"username":"x","roles":["blue"]}],"traces":[{"name":"t","spans":[{"SpanAttributes":{"team":"blue"}}]}],"tests":[{"name":"x sees t","user":"x","trace":"t","visible":true}]}');
INSERT INTO public.used_password_hashes VALUES ('d57b5b2c3e073030fd66f5af4ed2bc1f15dc61b0ca4eb7898954d5d003835978', 1795382058092068);
INSERT INTO public.user_roles VALUES ('usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin');
INSERT INTO public.user_roles VALUES ('usr_6FQYeleTQGR6sHbRSQt7Rl', 'blue');
INSERT INTO public.user_roles VALUES ('usr_24u8xK3zMTbSO6ul5elet8', 'red');
INSERT INTO public.user_roles VALUES ('usr_uL9ho62o0RxMcl8Ny71yoO', 'red');
INSERT INTO public.users VALUES ('usr_6FQYeleTQGR6sHbRSQt7Rl', 'ada', 'ada', '$argon2id$v=19$m=19456,t=2,p=1$5BieAEaZCC6hgaHGoKVlSw$eHxLV8Wx128f89Z6Ra6caUCiq6trYJ+yBtz3OClXYaM', 0, 0, 1795382061229239, 1795382061350691, '{"lead":true,"regions":["eu","us"],"team":"bü''\"\\"}');
INSERT INTO public.users VALUES ('usr_24u8xK3zMTbSO6ul5elet8', 'bob', 'bob', '$argon2id$v=19$m=19456,t=2,p=1$6e1iOhtiD875+kT2A9WjbQ$U0LrMpTiJL42zZnHn16/cEP87PIdV3mHvFUq3zhcCME', 0, 1, 1795382061621526, 1795382061906991, '{}');
INSERT INTO public.users VALUES ('usr_uL9ho62o0RxMcl8Ny71yoO', 'eve', 'eve', '$argon2id$v=19$m=19456,t=2,p=1$rYjLV5mksCPyB818cXd4gA$uXGjQmZEFzwphrugCH3RzAnaB4NPkDI8rEeEvmAJ86g', 1, 0, 1795382062157745, NULL, '{}');
INSERT INTO public.users VALUES ('usr_HRQEHEc3PeiNShhmk1dXuQ', 'admin', 'admin', '$argon2id$v=19$m=19456,t=2,p=1$pGnHe37T5HMgDYeOFaowbQ$8ieqMy+fcWpS5Ykt0kFIVr/+ecwvOe8NpFciIIHQMSE', 0, 0, 1795382058092068, 1795382062877056, '{}');
ALTER TABLE ONLY public.access_models
    ADD CONSTRAINT access_models_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_token_sha256_key UNIQUE (token_sha256);
ALTER TABLE ONLY public.audit_anchor
    ADD CONSTRAINT audit_anchor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_completes_key UNIQUE (completes);
ALTER TABLE ONLY public.audit_head
    ADD CONSTRAINT audit_head_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY public.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.login_throttles
    ADD CONSTRAINT login_throttles_pkey PRIMARY KEY (bucket);
ALTER TABLE ONLY public.role_change_policies
    ADD CONSTRAINT role_change_policies_pkey PRIMARY KEY (role, change, "position");
ALTER TABLE ONLY public.role_changes
    ADD CONSTRAINT role_changes_pkey PRIMARY KEY (role, change);
ALTER TABLE ONLY public.role_policies
    ADD CONSTRAINT role_policies_pkey PRIMARY KEY (role, "position");
ALTER TABLE ONLY public.role_revision
    ADD CONSTRAINT role_revision_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.roles
    ADD CONSTRAINT roles_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_token_sha256_key UNIQUE (token_sha256);
ALTER TABLE ONLY public.test_changes
    ADD CONSTRAINT test_changes_pkey PRIMARY KEY (change);
ALTER TABLE ONLY public.used_password_hashes
    ADD CONSTRAINT used_password_hashes_pkey PRIMARY KEY (sha256);
ALTER TABLE ONLY public.user_roles
    ADD CONSTRAINT user_roles_pkey PRIMARY KEY (user_id, role);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_username_folded_key UNIQUE (username_folded);
CREATE INDEX api_keys_by_user ON public.api_keys USING btree (user_id);
CREATE INDEX audit_by_action ON public.audit USING btree (action, sequence);
CREATE INDEX audit_by_actor ON public.audit USING btree (actor_name, sequence);
CREATE INDEX audit_by_actor_id ON public.audit USING btree (actor_id, sequence);
CREATE INDEX audit_by_time ON public.audit USING btree (at);
CREATE INDEX login_throttles_by_window ON public.login_throttles USING btree (window_start);
CREATE INDEX role_changes_by_change ON public.role_changes USING btree (change);
CREATE INDEX sessions_by_user ON public.sessions USING btree (user_id);
CREATE INDEX user_roles_by_role ON public.user_roles USING btree (role);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.role_change_policies
    ADD CONSTRAINT role_change_policies_role_change_fkey FOREIGN KEY (role, change) REFERENCES public.role_changes(role, change);
ALTER TABLE ONLY public.role_changes
    ADD CONSTRAINT role_changes_change_fkey FOREIGN KEY (change) REFERENCES public.changes(number);
ALTER TABLE ONLY public.role_policies
    ADD CONSTRAINT role_policies_role_fkey FOREIGN KEY (role) REFERENCES public.roles(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.test_changes
    ADD CONSTRAINT test_changes_change_fkey FOREIGN KEY (change) REFERENCES public.changes(number);
ALTER TABLE ONLY public.user_roles
    ADD CONSTRAINT user_roles_role_fkey FOREIGN KEY (role) REFERENCES public.roles(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.user_roles
    ADD CONSTRAINT user_roles_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id) ON DELETE CASCADE;
