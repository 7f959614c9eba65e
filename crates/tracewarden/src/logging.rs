//! Log lines, on standard error: standard output belongs to what the command line promises.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::configuration::LogFormat;

/// The library of the agents' protocol tells the end of every request, warns of every client that goes away, and tells each message with all that it holds at `trace`:
/// so it is heard only where somebody names it.
const PROTOCOL: &str = "rmcp";

/// Starts logging. The directives were checked with the configuration; were they wrong after all, everything from
/// `info` is logged.
pub fn start(directives: &str, format: LogFormat) {
    let filter: Targets =
        directives.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let filter = if directives.contains(PROTOCOL) {
        filter
    } else {
        filter.with_target(PROTOCOL, tracing::Level::ERROR)
    };
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // A second subscriber in one process is a test's; the first one stays.
    let _ = match format {
        LogFormat::Text => {
            registry.with(lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))).try_init()
        }
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}
