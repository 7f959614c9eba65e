"""An MCP client made with the official Python SDK: lists the tools, makes calls, and prints one JSON document.

{"sdk", "protocol", "server": {"name", "version"}, "instructions", "tools": [as listed],
"results": [{"name", "isError", "text", "structured"}], "complaints": [text]}; `text` is the text of all text blocks,
`complaints` has the SDK's messages besides its results. An exception is printed as
{"error": {"type", "message", "code", "data", "status"}} with as much as is known, and the exit code 1. The API key is in
MCP_API_KEY. Without it, the client finds the identity provider by itself, and writes `browse URL` to its standard error for the
person's browser; the address of its metadata document is in MCP_CLIENT_METADATA_URL, otherwise it registers itself.
`typescript_sdk.mjs` takes and prints the same.
"""

import argparse
import importlib.metadata
import json
import logging
import os
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

try:
    import anyio
    import httpx2
    from mcp import Client, MCPError
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.auth import OAuthClientMetadata
    from mcp.types import Implementation
except ImportError as error:
    # No document is printed, so this cannot be mistaken for an answer of the server.
    sys.exit(f"{error}: run `cargo xtask test`, which prepares the SDKs")

# "auto" tries `server/discover` and falls back, as hosts do; `protocol` shows the result.
MODES = {"newest": "auto", "previous": "legacy"}

# Seconds for the whole run. A server that never ends an answer fails only its own test.
DEADLINE = 60


class Complaints(logging.Handler):
    """Collects messages of the SDK: an answer that it cannot use does not always fail a call."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


class Memory:
    """Keeps what the identity provider issued, for this run."""

    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Callback(BaseHTTPRequestHandler):
    """Receives the person's browser."""

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self.server.received = {name: values[0] for name, values in query.items()}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"signed in")

    def log_message(self, *_):
        pass


def sign_in_by_browser(url, client_name):
    """Returns the authentication of a client that knows nothing but the address of the server."""
    server = HTTPServer(("127.0.0.1", 0), Callback)
    waiting = threading.Thread(target=server.handle_request, daemon=True)

    async def browse(address):
        waiting.start()
        print(f"browse {address}", file=sys.stderr, flush=True)

    async def wait():
        await anyio.to_thread.run_sync(waiting.join)
        received = server.received
        return AuthorizationCodeResult(
            code=received["code"], state=received.get("state"), iss=received.get("iss")
        )

    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            redirect_uris=[f"http://127.0.0.1:{server.server_port}/callback"], client_name=client_name
        ),
        storage=Memory(),
        redirect_handler=browse,
        callback_handler=wait,
        client_metadata_url=os.environ.get("MCP_CLIENT_METADATA_URL"),
    )


async def conversation(arguments, key, calls, last):
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)

    async def note(response):
        last["status"] = response.status_code

    # Without the environment's proxies: the server is on this machine.
    http = httpx2.AsyncClient(
        headers={} if key is None else {"Authorization": f"Bearer {key}"},
        auth=sign_in_by_browser(arguments.url, arguments.client_name) if key is None else None,
        timeout=DEADLINE,
        trust_env=False,
        event_hooks={"response": [note]},
    )
    async with http:
        client = Client(
            streamable_http_client(arguments.url, http_client=http),
            client_info=Implementation(name=arguments.client_name, version="1.0"),
            mode=MODES[arguments.revision],
        )
        async with client:
            tools = []
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
            results = []
            for call in calls:
                result = await client.call_tool(call["name"], call["arguments"])
                results.append({
                    "name": call["name"],
                    "isError": result.is_error,
                    "text": "\n".join(block.text for block in result.content if block.type == "text"),
                    "structured": result.structured_content,
                })
            server = client.server_info
            return {
                "sdk": f"mcp {importlib.metadata.version('mcp')}",
                "protocol": client.protocol_version,
                "server": server and {"name": server.name, "version": server.version},
                "instructions": client.instructions,
                "tools": [tool.model_dump(mode="json", by_alias=True, exclude_unset=True) for tool in tools],
                "results": results,
                "complaints": complaints.seen,
            }


def described(error, last):
    """Returns the document of an exception, without the groups that task groups wrap around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    found = {"type": type(error).__name__, "message": str(error) or repr(error)}
    if isinstance(error, MCPError):
        found |= {"code": error.error.code, "data": error.error.data}
    # The SDK does not tell the status of an answer that holds no JSON-RPC error.
    if last.get("status", 200) >= 400:
        found["status"] = last["status"]
    return found


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("revision", choices=MODES)
    parser.add_argument("calls", help='a file with `[{"name": …, "arguments": {…}}, …]`')
    parser.add_argument("--client-name", default="python-sdk-test")
    arguments = parser.parse_args()
    last = {}
    try:
        with open(arguments.calls, encoding="utf-8") as file:
            calls = json.load(file)
        with anyio.fail_after(DEADLINE):
            document = await conversation(arguments, os.environ.get("MCP_API_KEY"), calls, last)
    except Exception as error:
        document = {"error": described(error, last)}
    print(json.dumps(document))
    return 1 if "error" in document else 0


sys.exit(anyio.run(main))
