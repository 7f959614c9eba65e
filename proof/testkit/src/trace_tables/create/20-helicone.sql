-- Helicone: one row a request, without traces.
CREATE DATABASE helicone;
CREATE TABLE helicone.request_response_rmt
(
    response_id Nullable(UUID),
    response_created_at Nullable(DateTime64(3)),
    latency Nullable(Int64),
    status Int64,
    completion_tokens Nullable(Int64),
    prompt_tokens Nullable(Int64),
    model String,
    request_id UUID,
    request_created_at DateTime64(3),
    user_id String,
    organization_id UUID,
    proxy_key_id Nullable(UUID),
    threat Nullable(Bool),
    time_to_first_token Nullable(Int64),
    provider String,
    target_url Nullable(String),
    country_code Nullable(String),
    properties Map(LowCardinality(String), String),
    scores Map(LowCardinality(String), Int64),
    request_body String TTL toDateTime(request_created_at) + toIntervalMonth(3),
    response_body String TTL toDateTime(request_created_at) + toIntervalMonth(3),
    updated_at DateTime64(3) DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(updated_at)
PARTITION BY toYYYYMM(request_created_at)
PRIMARY KEY (organization_id, provider, model, user_id, request_created_at, request_id)
ORDER BY (organization_id, provider, model, user_id, request_created_at, request_id);
