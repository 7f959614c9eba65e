// An MCP client made with the official TypeScript SDK: lists the tools, makes calls, and prints one JSON document.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

// "auto" tries `server/discover` and falls back, as hosts do; `protocol` shows the result.
const MODES = { newest: "auto", previous: "legacy" };

// Milliseconds for the whole run. A server that never ends an answer fails only its own test.
const DEADLINE = 60_000;

/** Signs in the person by their browser: a client that knows nothing but the address of the server. */
class BrowserSignIn {
  constructor(clientName) {
    this.clientName = clientName;
    this.clientMetadataUrl = process.env.MCP_CLIENT_METADATA_URL;
    this.server = createServer((request, response) => {
      response.end("signed in");
      this.received?.(new URL(request.url, this.redirectUrl).searchParams);
    });
  }

  async listen() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.redirectUrl = `http://127.0.0.1:${this.server.address().port}/callback`;
    this.callback = new Promise((resolve) => {
      this.received = resolve;
    });
  }

  get clientMetadata() {
    return { client_name: this.clientName, redirect_uris: [this.redirectUrl], application_type: "native" };
  }

  clientInformation() {
    return this.client;
  }

  saveClientInformation(client) {
    this.client = client;
  }

  tokens() {
    return this.issued;
  }

  saveTokens(tokens) {
    this.issued = tokens;
  }

  redirectToAuthorization(address) {
    console.error(`browse ${address}`);
  }

  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }

  codeVerifier() {
    return this.verifier;
  }

  saveDiscoveryState(state) {
    this.discovered = state;
  }

  discoveryState() {
    return this.discovered;
  }
}

async function conversation(url, revision, calls, clientName, key) {
  // An answer that the SDK cannot use does not always fail a call.
  const complaints = [];
  const client = new Client(
    { name: clientName, version: "1.0" },
    { versionNegotiation: { mode: MODES[revision] } },
  );
  client.onerror = (error) => complaints.push(error.message);
  let transport;
  if (key === undefined) {
    const authProvider = new BrowserSignIn(clientName);
    await authProvider.listen();
    transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
    try {
      await client.connect(transport);
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await transport.finishAuth(await authProvider.callback);
      transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
      await client.connect(transport);
    }
    authProvider.server.close();
  } else {
    const headers = { Authorization: `Bearer ${key}` };
    transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
  }
  const { tools } = await client.listTools();
  const results = [];
  for (const call of calls) {
    const result = await client.callTool({ name: call.name, arguments: call.arguments });
    const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
    results.push({
      name: call.name,
      isError: result.isError ?? false,
      text: texts.join("\n"),
      structured: result.structuredContent ?? null,
    });
  }
  const server = client.getServerVersion();
  const sdk = new URL("node_modules/@modelcontextprotocol/client/package.json", import.meta.url);
  const { name, version } = JSON.parse(await readFile(sdk, "utf8"));
  const document = {
    sdk: `${name} ${version}`,
    protocol: client.getNegotiatedProtocolVersion(),
    server: server ? { name: server.name, version: server.version } : null,
    instructions: client.getInstructions() ?? null,
    tools,
    results,
    complaints,
  };
  // Does nothing unless the server has opened a session.
  await transport.terminateSession();
  await client.close();
  return document;
}

function described(error) {
  const { status } = error.data ?? {};
  return { type: error.constructor.name, message: error.message, code: error.code, data: error.data, status };
}

function finish(document) {
  process.stdout.write(`${JSON.stringify(document)}\n`, () => process.exit(document.error ? 1 : 0));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { "client-name": { type: "string", default: "typescript-sdk-test" } },
});
const [url, revision, file] = positionals;
const key = process.env.MCP_API_KEY;
if (!Object.hasOwn(MODES, revision) || file === undefined) {
  console.error("usage: [MCP_API_KEY=…] typescript_sdk.mjs URL newest|previous CALLS [--client-name NAME]");
  process.exit(2);
}
const late = { type: "TimeoutError", message: `not done in ${DEADLINE} ms` };
setTimeout(() => finish({ error: late }), DEADLINE).unref();
try {
  const calls = JSON.parse(await readFile(file, "utf8"));
  finish(await conversation(url, revision, calls, values["client-name"], key));
} catch (error) {
  finish({ error: described(error) });
}
