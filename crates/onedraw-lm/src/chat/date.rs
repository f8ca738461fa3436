//! The dates that templates write with `strftime_now`, in the C locale and UTC.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// In the order of days since 1970 began, which was a Thursday.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

const SECONDS_OF_A_DAY: i64 = 86_400;

/// Writes a time, in seconds since 1970 began. The error names a `%` code that is not supported.
pub(super) fn write(format: &str, seconds: i64) -> Result<String, String> {
    let (days, second) = (seconds.div_euclid(SECONDS_OF_A_DAY), seconds.rem_euclid(SECONDS_OF_A_DAY));
    let (year, month, day) = civil(days);
    let month_name = name(&MONTHS, month - 1);
    let day_name = name(&DAYS, days.rem_euclid(7));
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let part = match letters.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year.rem_euclid(100)),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('B') => month_name.to_owned(),
            Some('b') => short(month_name).to_owned(),
            Some('A') => day_name.to_owned(),
            Some('a') => short(day_name).to_owned(),
            Some('H') => format!("{:02}", second / 3600),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('%') => "%".to_owned(),
            Some(other) => return Err(format!("strftime_now: `%{other}` is not known here")),
            None => return Err("strftime_now: the format ends with `%`".to_owned()),
        };
        text.push_str(&part);
    }
    Ok(text)
}

fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// Year, month and day of the Gregorian calendar. Days are counted from 1 March of the year 0, so that a leap
/// day is the last day of its year. Every 400 years have the same number of days.
fn civil(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days_since_1970 + 719_468;
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // From March on, months have 31, 30, 31, 30, 31 days, again and again: 153 days for five months.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @… "+%d %b %Y"` has them.
        for (seconds, expected) in [
            (0, "01 Jan 1970 Thursday 00:00:00"),
            (951_782_400, "29 Feb 2000 Tuesday 00:00:00"),
            (1_721_988_000, "26 Jul 2024 Friday 10:00:00"),
            (1_735_689_599, "31 Dec 2024 Tuesday 23:59:59"),
            (4_107_542_400, "01 Mar 2100 Monday 00:00:00"),
            (-1, "31 Dec 1969 Wednesday 23:59:59"),
        ] {
            assert_eq!(write("%d %b %Y %A %H:%M:%S", seconds).as_deref(), Ok(expected));
        }
        assert_eq!(write("%a %B %y %m %F 100%%", 1_721_988_000).unwrap(), "Fri July 24 07 2024-07-26 100%");
    }

    #[test]
    fn every_day_of_400_years_follows_the_one_before() {
        let mut last = civil(-1);
        for days in 0..146_097 {
            let next = civil(days);
            let (year, month, day) = last;
            let allowed = [(year, month, day + 1), (year, month + 1, 1), (year + 1, 1, 1)];
            assert!(allowed.contains(&next) && next.2 <= 31 && next.1 <= 12, "{last:?} {next:?}");
            last = next;
        }
        assert_eq!(civil(146_097), (2370, 1, 1));
    }

    #[test]
    fn an_unknown_code_is_named() {
        assert_eq!(write("%Q", 0), Err("strftime_now: `%Q` is not known here".to_owned()));
        assert_eq!(write("100%", 0), Err("strftime_now: the format ends with `%`".to_owned()));
    }
}
