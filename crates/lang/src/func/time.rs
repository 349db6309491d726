//! Dates and durations. No clock is read and no system zone asked for: the time is an argument, the zones come
//! from a database in the program.

use super::parameter as param;
use super::{Body, FuncError, Function, FunctionCall, FunctionGroup, Returns};
#[cfg(feature = "time")]
use crate::value::NumberError;
use crate::value::{Number, Value};

pub(super) const DURATION: Function = Function {
    name: "duration",
    group: FunctionGroup::Time,
    params: &[param::text_or_number("text")],
    required: 1,
    returns: Returns::Number,
    doc: "the number of seconds of a duration such as `500ms`, `30s`, `5m`, `1h30m` or `2d`; a number is unchanged",
    examples: &[
        (r#"duration("1h30m")"#, "5400"),
        (r#"duration("500ms")"#, "0.5"),
        (r#"duration("1.5m")"#, "90"),
        ("duration(30)", "30"),
    ],
    body: Body::Plain(duration),
};

pub(super) const FORMAT_DATE: Function = Function {
    name: "format_date",
    group: FunctionGroup::Time,
    params: &[param::time("time"), param::text("format"), param::text("zone")],
    required: 1,
    returns: Returns::Text,
    doc: "an RFC 3339 time in a strftime format (default: `%Y-%m-%d`) and a time zone (default: UTC)",
    examples: &[
        (r#"format_date("2024-05-06T23:30:00Z")"#, r#""2024-05-06""#),
        (r#"format_date("2024-05-06T23:30:00Z", "%d.%m.%Y %H:%M", "Europe/Paris")"#, r#""07.05.2024 01:30""#),
        (r#""2024-05-06T23:30:00+02:00" | format_date("%H:%M %Z")"#, r#""21:30 UTC""#),
    ],
    body: Body::Plain(format_date),
};

pub(super) const SECONDS_BETWEEN: Function = Function {
    name: "seconds_between",
    group: FunctionGroup::Time,
    params: &[param::time("from"), param::time("to")],
    required: 2,
    returns: Returns::Number,
    doc: "the number of seconds from one RFC 3339 time or date to another; negative if the second is earlier",
    examples: &[
        (r#"seconds_between("2024-05-06T23:30:00Z", "2024-05-07T00:00:00Z")"#, "1800"),
        (r#"seconds_between("2024-02-28", "2024-03-01") / 86400"#, "2.0"),
        (r#"seconds_between("2024-05-06T12:00:00.5Z", "2024-05-06T12:00:00Z")"#, "-0.5"),
    ],
    body: Body::Plain(seconds_between),
};

/// Any time will do to try a format or a zone.
pub(crate) const SAMPLE_TIME: &str = "2024-05-06T07:08:09Z";

fn format_date(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let time = call.text(0)?;
    let format = call.optional_text(1)?.unwrap_or("%Y-%m-%d");
    let zone = call.optional_text(2)?;
    let text = strftime(time, format, zone)?;
    call.make_text(text.len(), |out| out.push_str(&text))
}

#[cfg(feature = "time")]
fn seconds_between(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let time = |call: &mut FunctionCall<'_>, arg: usize| {
        let hint = "write it like `2024-05-06T07:08:09Z`, with a zone, or `2024-05-06`";
        let refused =
            || FuncError::value(arg, "the text is neither a time in RFC 3339 nor a date", Some(hint));
        instant(call.text(arg)?).ok_or_else(refused)
    };
    let nanoseconds = time(call, 1)? - time(call, 0)?;
    let part = |number: i128| i64::try_from(number).map_err(|_| FuncError::from(NumberError::TooLarge));
    let (seconds, rest) = (part(nanoseconds / NANOSECONDS)?, part(nanoseconds % NANOSECONDS)?);
    let total = Number::int(seconds).add(&Number::decimal(rest, 9)?)?;
    Ok(Value::from(total.shortest()?))
}

#[cfg(not(feature = "time"))]
fn seconds_between(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("time"))
}

#[cfg(feature = "time")]
const NANOSECONDS: i128 = 1_000_000_000;

#[cfg(not(feature = "time"))]
pub(crate) fn strftime(_: &str, _: &str, _: Option<&str>) -> Result<String, FuncError> {
    Err(FuncError::Feature("time"))
}

#[cfg(feature = "time")]
pub use dates::instant;
#[cfg(feature = "time")]
pub(crate) use dates::strftime;

#[cfg(feature = "time")]
mod dates {
    use jiff::civil::{Date, DateTime, Time};
    use jiff::fmt::strtime::{self, BrokenDownTime};
    use jiff::fmt::temporal::{DateTimeParser, Pieces};
    use jiff::tz::{TimeZone, TimeZoneDatabase, TimeZoneName};
    use jiff::{SignedDuration, Timestamp, Zoned};

    use super::FuncError;
    use crate::diag::{self, words};

    /// A directive gives at most 255 bytes, so this bounds the result too.
    const MAX_FORMAT: usize = 1024;
    /// How a date is written.
    const DATE: &str = "2024-05-06";
    /// No zone has a longer name.
    const MAX_ZONE: usize = 64;

    /// A time in RFC 3339 in a format and a time zone, UTC when none is given. These are the first, second and
    /// third argument of the errors.
    pub(crate) fn strftime(time: &str, format: &str, zone: Option<&str>) -> Result<String, FuncError> {
        let zone = zone.map_or(Ok(TimeZone::UTC), named)?;
        if format.len() > MAX_FORMAT {
            let why = format!("the format is longer than {MAX_FORMAT} bytes");
            return Err(FuncError::value(1, why, None));
        }
        let text = time.trim();
        let formatted = match (text.parse::<Timestamp>(), last_days(text)) {
            (Ok(time), _) => strtime::format(format, &Zoned::new(time, zone)),
            (Err(_), Some(time)) => {
                let offset = zone.to_offset(Timestamp::MAX);
                let local = time.checked_add(SignedDuration::from_secs(offset.seconds().into()));
                let late = |_| FuncError::value(0, "the time is after the year 9999 in this zone", None);
                let mut parts = BrokenDownTime::from(local.map_err(late)?);
                parts.set_offset(Some(offset));
                parts.to_string(format)
            }
            (Err(_), None) => {
                let hint = "write it like `2024-05-06T07:08:09Z`, with a zone";
                return Err(FuncError::value(0, "the text is not a time in RFC 3339", Some(hint)));
            }
        };
        formatted.map_err(|error| refused(&error))
    }

    /// A time of the last two days of 9999, in UTC: usual for "never", and too late to have a zone.
    fn last_days(text: &str) -> Option<DateTime> {
        let pieces = Pieces::parse(text).ok().filter(|_| text.starts_with("9999-12-3"))?;
        let local = DateTime::from_parts(pieces.date(), pieces.time()?);
        let offset = pieces.to_numeric_offset()?;
        local.checked_sub(SignedDuration::from_secs(offset.seconds().into())).ok()
    }

    /// The nanoseconds since 1970 of a time in RFC 3339, or of the first moment of a date, UTC.
    pub fn instant(text: &str) -> Option<i128> {
        let text = text.trim();
        if let Ok(time) = text.parse::<Timestamp>() {
            return Some(time.as_nanosecond());
        }
        let date = text.parse::<Date>().ok().filter(|_| text.len() == DATE.len());
        let time = date.map(|date| date.to_datetime(Time::midnight())).or_else(|| last_days(text))?;
        let since = time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
        Some(since.as_nanos())
    }

    fn refused(error: &jiff::Error) -> FuncError {
        let error = error.to_string();
        let reason = error.lines().next().unwrap_or("");
        let reason = reason.strip_prefix("strftime formatting failed: ").unwrap_or(reason);
        FuncError::value(1, format!("the format does not hold: {reason}"), None)
    }

    fn named(zone: &str) -> Result<TimeZone, FuncError> {
        let zones = TimeZoneDatabase::bundled();
        let unknown = || FuncError::Value {
            arg: 2,
            why: "no time zone has this name".to_owned(),
            hint: nearest(zone, &zones).map(words::did_you_mean),
        };
        if zone.len() > MAX_ZONE {
            return Err(unknown());
        }
        DateTimeParser::new().parse_time_zone_with(&zones, zone).map_err(|_| unknown())
    }

    /// The zone whose name, or else whose city, is most like this one.
    fn nearest(zone: &str, zones: &TimeZoneDatabase) -> Option<String> {
        if zone.len() > MAX_ZONE {
            return None;
        }
        let zone = zone.replace(' ', "_");
        let names: Vec<_> = zones.available().collect();
        let names = || names.iter().map(TimeZoneName::as_str);
        let city = |name: &'_ str| name.rfind('/').map_or(0, |slash| slash + 1);
        let near = diag::nearest(&zone, names()).or_else(|| {
            let same = |name: &&str| name[city(name)..].eq_ignore_ascii_case(&zone);
            let near = diag::nearest(&zone, names().map(|name| &name[city(name)..]));
            names().find(same).or_else(|| names().find(|name| Some(&name[city(name)..]) == near))
        });
        near.map(str::to_owned)
    }
}

/// Units from large to small, and their seconds as a decimal.
const UNITS: [(&str, i64, i64); 5] =
    [("d", 86_400, 0), ("h", 3_600, 0), ("m", 60, 0), ("s", 1, 0), ("ms", 1, 3)];

fn duration(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let value = call.arg(0);
    if value.as_number().is_some() {
        return Ok(value.clone());
    }
    if value.as_str().is_none() {
        return Err(call.wrong_type(0, "text or a number"));
    }
    let seconds = seconds(call.text(0)?.trim())?;
    seconds.map(Value::from).ok_or_else(|| {
        let hint = "write it like `500ms`, `30s`, `5m`, `1h30m` or `2d`";
        FuncError::value(0, "the text is not a duration", Some(hint))
    })
}

/// The seconds of a duration such as `1h30m`, as the function `duration` reads it.
pub fn duration_seconds(text: &str) -> Option<Number> {
    seconds(text.trim()).ok().flatten()
}

/// The seconds of a duration whose units stand from large to small, each at most once.
fn seconds(text: &str) -> Result<Option<Number>, FuncError> {
    let (mut total, mut units, mut rest) = (Number::int(0), &UNITS[..], text);
    if rest.is_empty() {
        return Ok(None);
    }
    while !rest.is_empty() {
        let Some((count, unit, after)) = part(rest) else {
            return Ok(None);
        };
        let Some(at) = units.iter().position(|(name, ..)| *name == unit) else {
            return Ok(None);
        };
        let (_, seconds, scale) = units[at];
        total = total.add(&count.mul(&Number::decimal(seconds, scale)?)?)?;
        (units, rest) = (&units[at + 1..], after.trim_start());
    }
    Ok(Some(total.shortest()?))
}

/// A count and its unit. Counts are short: more digits are a mistake.
fn part(text: &str) -> Option<(Number, &str, &str)> {
    const MAX_COUNT: usize = 18;
    let is_count = |char: char| char.is_ascii_digit() || char == '.';
    let (count, rest) = text.split_at(text.find(|char| !is_count(char))?);
    let end = rest.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(end);
    let count = Number::parse(count).ok().filter(|_| count.len() <= MAX_COUNT)?;
    Some((count, unit, after))
}
