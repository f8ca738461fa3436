//! Percentiles, and what the tables say of the machine.

use std::fs;
use std::process::Command;

use crate::arguments::Arguments;

/// The value that this share of the values is not above. The values are put in order.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

pub fn median(values: &[f64]) -> f64 {
    percentile(&mut values.to_vec(), 0.5)
}

/// The heading, the command and the machine.
pub fn heading(title: &str, arguments: &Arguments) -> String {
    format!(
        "# {}: {title}\n\n`cargo bench -p onedraw-serve --bench load -- {}`\n\n{}, {} cores. The program is {}.\n",
        today(),
        arguments.line,
        processor(),
        std::thread::available_parallelism().map_or(0, usize::from),
        version(arguments),
    )
}

/// How many processes wanted to run in the last minute, on average.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// A number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn today() -> String {
    output(Command::new("date").args(["-u", "+%Y-%m-%d"])).unwrap_or_else(|| "a day".to_owned())
}

fn version(arguments: &Arguments) -> String {
    output(Command::new(&arguments.program).arg("--version")).unwrap_or_else(|| "unknown".to_owned())
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = information.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    name.unwrap_or("A processor without a name").to_owned()
}
