//! On what and when something was measured.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use onedraw::Kernel;
use serde::Serialize;

/// The machine, as far as the system tells.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: Option<String>,
    /// Cores that this program may use.
    pub cores: usize,
    /// The caches of the first core, such as "L2 2048K".
    pub caches: Vec<String>,
    /// The instruction set that read the rows.
    pub kernel: &'static str,
    /// The version of onedraw.
    pub onedraw: &'static str,
    /// The day, in UTC, as year-month-day.
    pub date: String,
}

impl Machine {
    /// This machine, today, with rows read by `kernel`.
    pub fn here(kernel: Kernel) -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            cpu: cpu(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            caches: caches(),
            kernel: in_use(kernel).name(),
            onedraw: env!("CARGO_PKG_VERSION"),
            date: date(seconds / 86_400),
        }
    }
}

/// What [`Kernel::Auto`] stands for here.
fn in_use(kernel: Kernel) -> Kernel {
    let widest_first = [Kernel::Avx512, Kernel::Avx2, Kernel::Neon, Kernel::Sse, Kernel::Scalar];
    match kernel {
        Kernel::Auto => widest_first.into_iter().find(|kernel| kernel.is_supported()).unwrap_or(kernel),
        kernel => kernel,
    }
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn caches() -> Vec<String> {
    let describe = |index: usize| {
        let read = |file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let kind = match read("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{}{kind} {}", read("level")?, read("size")?))
    };
    (0..).map_while(describe).collect()
}

/// The civil date of a day since 1970, by the count of days in a year that begins in March (H. Hinnant).
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let days = [0, 59, 11_016, 19_782, 20_453, 20_772];
        let dates = ["1970-01-01", "1970-03-01", "2000-02-29", "2024-02-29", "2025-12-31", "2026-11-15"];
        assert_eq!(days.map(date), dates);
    }

    #[test]
    fn this_machine_has_a_core_and_an_instruction_set() {
        let machine = Machine::here(Kernel::Auto);
        assert!(machine.cores > 0 && machine.kernel != "auto");
        assert_eq!(Machine::here(Kernel::Scalar).kernel, "scalar");
    }
}
