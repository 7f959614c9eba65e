//! The shopping assistant: an agent on a large language model, with prompts that only some users may read.

use serde_json::json;

use super::attributes::Value;
use super::builder::{Builder, Node};
use super::calls::Request;
use super::rng::{SECOND, SampleRng};
use super::services::Service::{Assistant, Catalog, Frontend, Search};
use super::span::{Kind, Trace, TraceId};
use super::visitors::Visitor;

const MODEL: &str = "atlas-4-mini";
const INSTRUCTIONS: &str = "You are the shopping assistant of {tenant}. Recommend products of this shop only. Never promise delivery dates.";

const QUESTIONS: [(&str, &str, &str); 4] = [
    (
        "I need a present for my daughter's eighth birthday, she likes space. It should arrive at 12 Mill Lane by Friday.",
        "{\"query\":\"space toys age 8\",\"limit\":5}",
        "The star projector and the rocket building set suit an eight-year-old; both are in stock.",
    ),
    (
        "Which of the drills works with the batteries I bought last month? My order was under jo.winter@example.net.",
        "{\"query\":\"cordless drill 18V\",\"limit\":5}",
        "The two 18 V drills take the batteries of the same series.",
    ),
    (
        "Is the blue lamp dimmable? I have migraine and need low light.",
        "{\"query\":\"blue lamp dimmable\",\"limit\":3}",
        "The blue table lamp is dimmable in three steps.",
    ),
    (
        "Find me hiking boots for wide feet under 120 euros.",
        "{\"query\":\"hiking boots wide\",\"max_price\":120,\"limit\":5}",
        "Two pairs fit wide feet and cost less than 120 euros.",
    ),
];

/// A turn of a conversation: the model requests a tool call and answers with its result.
pub(super) fn converse(rng: &mut SampleRng, visitor: &Visitor, id: Option<TraceId>, at: u64) -> Trace {
    let id = id.unwrap_or_else(|| rng.trace_id());
    let mut builder = Builder::with_id(rng, visitor.environment, id);
    let (question, arguments, reply) = builder.rng.one_of(QUESTIONS[0], &QUESTIONS[1..]);
    let conversation = format!("conv-{}", builder.rng.between(100_000, 999_999));
    let request =
        Request { method: "POST", route: "/assistant/messages", path: "/assistant/messages".to_owned() };
    let root = builder.visit(Frontend, request, visitor, at);
    let time = builder.pause(at);
    let (call, time) = builder.call(root, Frontend, Assistant, "shop.Assistant/Reply", time);
    builder.identify(call.server, visitor);

    let agent =
        builder.begin(Some(call.server), Assistant, "invoke_agent shopping-assistant", Kind::Internal, time);
    builder.set(agent, "gen_ai.operation.name", "invoke_agent");
    builder.set(agent, "gen_ai.provider.name", "atlas");
    builder.set(agent, "gen_ai.agent.name", "shopping-assistant");
    builder.set(agent, "gen_ai.conversation.id", conversation.clone());
    builder.set(agent, "gen_ai.request.model", MODEL);
    builder.identify(agent, visitor);

    let asked = json!([{"role": "user", "parts": [{"type": "text", "content": question}]}]).to_string();
    let instructions = INSTRUCTIONS.replace("{tenant}", &visitor.tenant);
    let turn = Turn { conversation: &conversation, instructions: &instructions };
    let call_id = format!("call_{}", builder.rng.between(10_000_000, 99_999_999));
    let wanted = json!([{"role": "assistant", "finish_reason": "tool_call", "parts": [
        {"type": "tool_call", "id": call_id, "name": "search_products", "arguments": arguments}]}])
    .to_string();
    let time = chat(&mut builder, agent, &turn, &asked, &wanted, "tool_calls", time);
    let (found, time) = search_tool(&mut builder, agent, visitor, &call_id, arguments, time);
    let time = stock_tool(&mut builder, agent, visitor, time);
    let with_result = json!([{"role": "user", "parts": [{"type": "text", "content": question}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": found}]}])
    .to_string();
    let said = json!([{"role": "assistant", "finish_reason": "stop", "parts": [{"type": "text", "content": reply}]}]);
    let time = chat(&mut builder, agent, &turn, &with_result, &said.to_string(), "stop", time);
    builder.end(agent, time);
    let time = builder.answer(call, "OK", time);
    builder.respond(root, 200, time);
    builder.finish()
}

struct Turn<'a> {
    conversation: &'a str,
    instructions: &'a str,
}

fn chat(
    builder: &mut Builder<'_>,
    parent: Node,
    turn: &Turn<'_>,
    input: &str,
    output: &str,
    finish_reason: &'static str,
    at: u64,
) -> u64 {
    let node = builder.begin(Some(parent), Assistant, format!("chat {MODEL}"), Kind::Client, at);
    builder.set(node, "gen_ai.operation.name", "chat");
    builder.set(node, "gen_ai.provider.name", "atlas");
    builder.set(node, "gen_ai.conversation.id", turn.conversation.to_owned());
    builder.set(node, "gen_ai.request.model", MODEL);
    builder.set(node, "gen_ai.response.model", "atlas-4-mini-2026-08-01");
    builder.set(node, "gen_ai.request.temperature", 0.2);
    builder.set(node, "gen_ai.request.max_tokens", 1_024);
    builder.set(node, "server.address", "models.atlas.example");
    // A common estimate is four characters per token.
    let tokens = (input.len() + turn.instructions.len()) as i64 / 4;
    builder.set(node, "gen_ai.usage.input_tokens", tokens);
    builder.set(node, "gen_ai.usage.output_tokens", output.len() as i64 / 4);
    builder.set(node, "gen_ai.response.finish_reasons", Value::List(vec![finish_reason.into()]));
    let mut time = at;
    if builder.rng.once_in(12) {
        // The provider limits the rate, and the client retries later.
        time += builder.rng.between(SECOND / 2, SECOND);
        let attributes =
            vec![("http.response.status_code", Value::Integer(429)), ("app.retry.attempt", 1.into())];
        builder.event(node, time, "retry", attributes);
    }
    let end = time + builder.rng.latency(1_400_000).min(8 * SECOND);
    let content = vec![
        ("gen_ai.operation.name", Value::from("chat")),
        (
            "gen_ai.system_instructions",
            json!([{"type": "text", "content": turn.instructions}]).to_string().into(),
        ),
        ("gen_ai.input.messages", input.to_owned().into()),
        ("gen_ai.output.messages", output.to_owned().into()),
    ];
    builder.event(node, end, "gen_ai.client.inference.operation.details", content);
    builder.end(node, end);
    end
}

fn tool(
    builder: &mut Builder<'_>,
    parent: Node,
    name: &'static str,
    call_id: &str,
    arguments: &str,
    at: u64,
) -> Node {
    let node = builder.begin(Some(parent), Assistant, format!("execute_tool {name}"), Kind::Internal, at);
    builder.set(node, "gen_ai.operation.name", "execute_tool");
    builder.set(node, "gen_ai.tool.name", name);
    builder.set(node, "gen_ai.tool.type", "function");
    builder.set(node, "gen_ai.tool.call.id", call_id.to_owned());
    builder.set(node, "gen_ai.tool.call.arguments", arguments.to_owned());
    node
}

fn search_tool(
    builder: &mut Builder<'_>,
    agent: Node,
    visitor: &Visitor,
    call_id: &str,
    arguments: &str,
    at: u64,
) -> (String, u64) {
    let node = tool(builder, agent, "search_products", call_id, arguments, at);
    let (call, time) = builder.call(node, Assistant, Search, "shop.Search/Find", at);
    builder.identify(call.server, visitor);
    let time = builder.work(call.server, Search, "rank results", 6_000, time);
    let time = builder.answer(call, "OK", time);
    let skus = [builder.rng.between(1_000, 5_000), builder.rng.between(5_000, 9_000)];
    let found = json!({"products": skus.map(|sku| json!({"sku": sku, "in_stock": true}))}).to_string();
    builder.set(node, "gen_ai.tool.call.result", found.clone());
    builder.end(node, time);
    (found, time)
}

fn stock_tool(builder: &mut Builder<'_>, agent: Node, visitor: &Visitor, at: u64) -> u64 {
    let call_id = format!("call_{}", builder.rng.between(10_000_000, 99_999_999));
    let node = tool(builder, agent, "get_product", &call_id, "{\"fields\":[\"stock_hint\"]}", at);
    let (call, time) = builder.call(node, Assistant, Catalog, "shop.Catalog/GetProduct", at);
    builder.identify(call.server, visitor);
    let time = builder.cache(call.server, Catalog, "GET", true, time);
    let time = builder.answer(call, "OK", time);
    builder.set(node, "gen_ai.tool.call.result", "{\"stock_hint\":\"plenty\"}");
    builder.end(node, time);
    time
}
