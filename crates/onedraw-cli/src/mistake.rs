//! What to say about a mistake on the command line: which flag was probably meant, and where to read more.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use onedraw::suggest::{Suggestion, nearest, suggestion};

/// Names of other systems' flags for what is a flag here, but no parameter.
const ELSEWHERE: [(&str, &str); 3] =
    [("num-beams", "beams"), ("beam-width", "beams"), ("guidance-scale", "guidance")];

/// The parser's message without its usage and hints, which follow after an empty line; with the flag that was
/// probably meant, and the command whose help has it.
pub fn usage(error: &clap::Error, definition: &Command, line: &[OsString]) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let message = lines.collect::<Vec<_>>().join(" ");
    let (path, command) = called(definition, line);
    let meant = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(name))) => meant(name, command),
        _ => None,
    };
    let message = meant.map_or(message.clone(), |meant| format!("{message}; {meant}"));
    with_help(&message, &path)
}

/// A message, and where to read more.
fn with_help(message: &str, path: &str) -> String {
    let see = if message.ends_with('?') { " See" } else { "; see" };
    format!("{message}{see} {path} --help")
}

/// The message of a command that could not be carried out. Where it is about a name that is no parameter's,
/// with the command whose help has the names.
pub fn explained(message: &str, definition: &Command, line: &[OsString]) -> String {
    match message.contains("unknown field `") {
        true => with_help(message, &called(definition, line).0),
        false => message.to_owned(),
    }
}

/// The command that was called, as it is written, with its definition.
fn called<'a>(definition: &'a Command, line: &[OsString]) -> (String, &'a Command) {
    let (mut path, mut command) = ("onedraw".to_owned(), definition);
    for word in line.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|word| command.find_subcommand(word)) else { break };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    (path, command)
}

/// What an unknown flag of a command probably means.
fn meant(flag: &str, command: &Command) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let ours: Vec<&str> = shown.filter_map(clap::Arg::get_long).collect();
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, ours_)| *theirs == name && ours.contains(ours_))
    {
        return Some(format!("did you mean '--{ours}'?"));
    }
    match suggestion(name) {
        Some(Suggestion::Instead(words)) => return Some(words.to_owned()),
        Some(Suggestion::Parameter(parameter)) => {
            let flag = parameter.replace('_', "-");
            // Another flag may be nearer, or the command may have no sampling parameters.
            if ours.contains(&flag.as_str()) && nearest(name, ours.iter().map(|flag| (flag, ()))).is_none() {
                return Some(format!("did you mean '--{flag}'?"));
            }
        }
        None => {}
    }
    nearest(name, ours.iter().map(|&flag| (flag, flag))).map(|flag| format!("did you mean '--{flag}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::definition;

    fn message(line: &[&str]) -> String {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let mut definition = definition();
        let error = definition.try_get_matches_from_mut(&line).expect_err("an error");
        usage(&error, &definition, &line)
    }

    #[test]
    fn a_usage_error_is_its_first_paragraph_and_where_to_read_more() {
        assert_eq!(
            message(&["onedraw", "sample"]),
            "the following required arguments were not provided: <LOGITS>; see onedraw sample --help"
        );
        assert_eq!(
            message(&["onedraw", "sample", "x.npy", "--format", "xml"]),
            "invalid value 'xml' for '--format <FORMAT>' [possible values: json, table]; see onedraw sample --help"
        );
        assert_eq!(message(&["onedraw", "draw"]), "unrecognized subcommand 'draw'; see onedraw --help");
    }

    #[test]
    fn a_misspelt_flag_names_the_one_that_was_meant() {
        for (command, wrong, meant) in [
            ("generate", "--temperture", "--temperature"),
            ("generate", "--max-length", "--max-tokens"),
            ("generate", "--max_tokens", "--max-tokens"),
            ("generate", "--repeat-penalty", "--repetition-penalty"),
            ("generate", "--beam", "--beams"),
            ("generate", "--guidance-scale", "--guidance"),
            ("sample", "--draw", "--draws"),
            ("sample", "--topp", "--top-p"),
            ("plot", "--out", "--output"),
            ("params import", "--form", "--from"),
        ] {
            let line = [&["onedraw"], &command.split(' ').collect::<Vec<_>>()[..], &[wrong, "1"]].concat();
            let expected = format!(
                "unexpected argument '{wrong}' found; did you mean '{meant}'? See onedraw {command} --help"
            );
            assert_eq!(message(&line), expected);
        }
        assert_eq!(
            message(&["onedraw", "generate", "--do-sample"]),
            "unexpected argument '--do-sample' found; greedy text is `temperature` 0; see onedraw generate --help"
        );
        assert_eq!(
            message(&["onedraw", "sample", "--colour"]),
            "unexpected argument '--colour' found; see onedraw sample --help"
        );
    }

    #[test]
    fn names_of_other_systems_are_flags_where_they_mean_the_same() {
        let definition = definition();
        for (flag, ours) in
            [("--max-new-tokens", "max_tokens"), ("--min-new-tokens", "min_tokens"), ("--num-beams", "beams")]
        {
            let line = ["onedraw", "generate", "x", flag, "3"];
            let matches = definition.clone().try_get_matches_from(line).expect(flag);
            let (_, matches) = matches.subcommand().expect("generate");
            let given = matches.get_raw(ours).expect(ours).collect::<Vec<_>>();
            assert_eq!(given, ["3"], "{flag}");
        }
    }
}
