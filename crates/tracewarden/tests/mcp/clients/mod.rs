//! The official MCP SDKs as clients, each in a separate program. Their output is described in `python_sdk.py`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tracewarden_testkit::node::prepared_node;
use tracewarden_testkit::python::prepared_python;

/// A revision of the MCP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// Stateless: `server/discover`, and client information in every request.
    Newest,
    /// With `initialize`.
    Previous,
}

impl Revision {
    pub const ALL: [Self; 2] = [Self::Newest, Self::Previous];

    /// Returns the protocol's name of the revision.
    pub fn date(self) -> &'static str {
        match self {
            Self::Newest => "2026-07-28",
            Self::Previous => "2025-11-25",
        }
    }
}

/// An official SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    Python,
    TypeScript,
}

impl Sdk {
    pub const ALL: [Self; 2] = [Self::Python, Self::TypeScript];

    /// Returns the name in the SDK's `clientInfo`; the version is `1.0`.
    pub fn client_name(self) -> &'static str {
        match self {
            Self::Python => "python-sdk-test",
            Self::TypeScript => "typescript-sdk-test",
        }
    }

    /// Lists the tools and makes these calls, `[{"name": …, "arguments": {…}}, …]`, in one conversation. Blocks for at most
    /// a minute.
    ///
    /// # Errors
    /// The error that the SDK raised: an object with `type`, `message` and, if the SDK reports them, `code`, `data` and the
    /// HTTP `status`. A failed connection or a missing answer is also reported this way: a test of a rejection must check
    /// which error it was.
    pub fn ask(self, revision: Revision, url: &str, key: &str, calls: &Value) -> Result<Value, Value> {
        let file = file_with(calls);
        let output = self.command(revision, url, file.path()).env("MCP_API_KEY", key).output().unwrap();
        self.outcome(revision, output)
    }

    /// The same for a client that knows nothing but the address of the server: it signs in a person by `browse`, which opens an
    /// address in the person's browser, until the provider redirects to the client. `metadata_url` is the address of the client's
    /// metadata document; without one it registers itself.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn sign_in_and_ask(
        self,
        revision: Revision,
        url: &str,
        metadata_url: Option<&str>,
        calls: &Value,
        browse: impl AsyncFnOnce(String),
    ) -> Result<Value, Value> {
        let file = file_with(calls);
        let mut command = self.command(revision, url, file.path());
        if let Some(metadata_url) = metadata_url {
            command.env("MCP_CLIENT_METADATA_URL", metadata_url);
        }
        let mut child =
            command.env_remove("MCP_API_KEY").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("browse ").map(str::to_owned));
        if let Some(address) = address {
            browse(address).await;
        }
        let rest = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
        let mut output =
            tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
        output.stderr = rest.join().unwrap().into_bytes();
        self.outcome(revision, output)
    }

    fn command(self, revision: Revision, url: &str, calls: &Path) -> Command {
        let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/clients"));
        let mut command = match self {
            Self::Python => {
                let mut python = Command::new(prepared_python().unwrap());
                python.arg(directory.join("python_sdk.py"));
                python
            }
            Self::TypeScript => {
                let mut node = Command::new(prepared_node(directory).unwrap());
                node.arg(directory.join("typescript_sdk.mjs"));
                node
            }
        };
        let named = match revision {
            Revision::Newest => "newest",
            Revision::Previous => "previous",
        };
        command.args([url, named]).arg(calls);
        command
    }

    fn outcome(self, revision: Revision, output: Output) -> Result<Value, Value> {
        let printed = serde_json::from_slice::<Value>(&output.stdout);
        match (output.status.code(), printed) {
            (Some(0), Ok(document)) => {
                // An SDK that falls back to another revision would leave the intended one untested.
                assert_eq!(document["protocol"], revision.date(), "{self:?}: {document}");
                Ok(document)
            }
            (Some(1), Ok(document)) if document["error"].is_object() => Err(document["error"].clone()),
            (_, printed) => panic!(
                "{self:?} ended with {}: {printed:?}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
}

fn file_with(calls: &Value) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(calls.to_string().as_bytes()).unwrap();
    file
}

/// Returns the Python SDK's result, which must have no error.
#[track_caller]
pub fn python(revision: Revision, url: &str, key: &str, calls: &Value) -> Value {
    expect_document(Sdk::Python, revision, Sdk::Python.ask(revision, url, key, calls))
}

/// Returns the TypeScript SDK's result, which must have no error.
#[track_caller]
pub fn typescript(revision: Revision, url: &str, key: &str, calls: &Value) -> Value {
    expect_document(Sdk::TypeScript, revision, Sdk::TypeScript.ask(revision, url, key, calls))
}

#[track_caller]
fn expect_document(sdk: Sdk, revision: Revision, outcome: Result<Value, Value>) -> Value {
    let document = outcome.unwrap_or_else(|error| panic!("{sdk:?}, {revision:?}: {error}"));
    assert_eq!(document["complaints"], json!([]), "{sdk:?}, {revision:?}");
    document
}
