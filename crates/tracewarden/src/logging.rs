//! Logging to standard error. Standard output is reserved for the documented output of the commands.

use std::panic::PanicHookInfo;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::configuration::values::LogFormat;

/// The MCP library logs the end of every request, warns of every client that disconnects, and logs every message with its
/// content at `trace`. It is therefore limited to errors unless the directives name it.
const MCP_LIBRARY: &str = "rmcp";

/// Starts logging, including panics. The directives were validated with the configuration; if they cannot be parsed here,
/// everything from `info` is logged.
pub fn start(directives: &str, format: LogFormat) {
    let filter: Targets =
        directives.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let filter = if directives.contains(MCP_LIBRARY) {
        filter
    } else {
        filter.with_target(MCP_LIBRARY, tracing::Level::ERROR)
    };
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // A second subscriber in one process occurs only in tests; the first one stays.
    let _ = match format {
        LogFormat::Text => {
            registry.with(lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))).try_init()
        }
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    std::panic::set_hook(Box::new(panicked));
}

/// Logs where a thread panicked, without the message: the message often quotes the data that caused the panic, such as a
/// string that was sliced in the middle of a character, and that may be user data.
fn panicked(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    tracing::error!(place, thread = thread.name().unwrap_or("unnamed"), "panicked");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the process that panics. It needs its own panic hook and standard error.
    const PANICS: &str = "PANICS_FOR_A_TEST";

    fn panics() {
        start("info", LogFormat::Json);
        let worker = std::thread::Builder::new().name("worker".to_owned());
        let died = worker.spawn(|| panic!("a span with {} in it", "hunter2")).unwrap().join();
        assert!(died.is_err());
        tracing::info!("it goes on");
    }

    #[test]
    fn a_panic_is_one_line_like_others_without_its_message() {
        if std::env::var_os(PANICS).is_some() {
            return panics();
        }
        let this = "logging::tests::a_panic_is_one_line_like_others_without_its_message";
        let mut process = Command::new(std::env::current_exe().unwrap());
        let output = process.args([this, "--exact", "--nocapture"]).env(PANICS, "").output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !log.contains("hunter2"), "{log}");
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{log}"))).collect();
        let [panicked, after] = lines.as_slice() else { panic!("{log}") };
        assert_eq!(panicked["message"], "panicked");
        assert_eq!((&panicked["level"], &panicked["thread"]), (&"ERROR".into(), &"worker".into()));
        let place = panicked["place"].as_str().unwrap();
        assert!(place.contains("logging.rs:"), "{place}");
        assert_eq!(after["message"], "it goes on");
    }
}
