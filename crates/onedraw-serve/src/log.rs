//! The log: on standard error, a line for each request.

use tracing::Level;

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// Begins to write the log of this process. Later calls have no effect.
pub fn start(format: LogFormat) {
    let builder =
        tracing_subscriber::fmt().with_max_level(Level::INFO).with_writer(std::io::stderr).with_target(false);
    // An error says that there is a log already.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(false).try_init().is_ok(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init()
            .is_ok(),
    };
}
