//! The same number of tokens by `onedraw generate` and by the server, in turns.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::answer::{self, Answer};
use crate::arguments::Arguments;
use crate::client::{Arrived, Client};
use crate::program::{Server, processor};
use crate::report::{heading, load, median};
use crate::request::Asked;

const PROMPT: &str = "Once upon a time";
const TEXTS: usize = 64;
const LENGTH: usize = 200;
const SEED: u64 = 7;
const TOKENS: f64 = (TEXTS * LENGTH) as f64;

/// How the tokens are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `onedraw generate -n 64`.
    Program,
    /// 64 requests at the same time, with whole answers.
    Whole,
    /// 64 requests at the same time, with streams.
    Streams,
    /// One request with n = 64, which has the program's seed and so its texts.
    One,
}

const WAYS: [Way; 4] = [Way::Program, Way::Whole, Way::Streams, Way::One];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Program => "`onedraw generate -n 64`, by its own clock",
            Self::Whole => "64 requests, whole answers",
            Self::Streams => "64 requests, streams",
            Self::One => "1 request with `n` = 64, whole answer",
        }
    }
}

/// One way, once.
struct Round {
    seconds: f64,
    /// The processor time of the program or server, and that of the clients.
    processor: f64,
    clients: f64,
    texts: Vec<String>,
}

/// Runs it, and gives the report and whether all answers were right.
pub async fn throughput(arguments: &Arguments) -> Result<(String, bool)> {
    let busy_before = load();
    let server = Server::start(arguments)?;
    let mut rounds: [Vec<Round>; 4] = Default::default();
    let mut walls = Vec::new();
    for round in 0..arguments.rounds {
        // Each way is the first one as often as the others.
        for place in (0..WAYS.len()).map(|place| (place + round) % WAYS.len()) {
            let measured = match WAYS[place] {
                Way::Program => {
                    let begun = Instant::now();
                    let measured = by_program(arguments)?;
                    walls.push(TOKENS / begun.elapsed().as_secs_f64());
                    measured
                }
                way => by_server(&server, way).await?,
            };
            eprintln!("round {round}: {:.0} tokens/s, {}", TOKENS / measured.seconds, WAYS[place].name());
            rounds[place].push(measured);
        }
    }
    let ended = server.end()?;
    let wrong = differences(&rounds);
    let is_right = wrong.is_empty() && ended.code == Some(0);

    let mut report = heading("a server's throughput", arguments);
    writeln!(
        report,
        "{TEXTS} texts of {LENGTH} tokens after \"{PROMPT}\", in turns, {} rounds; medians. Clients and server share the machine. In the minute before, {busy_before} processes wanted to run; in the last one, {}.\n",
        arguments.rounds,
        load()
    )?;
    report += "| | tokens/s | least–most | of `generate` | processor time of the program | of the clients |\n\
               |---|---:|---:|---:|---:|---:|\n";
    let rates = |place: usize| -> Vec<f64> {
        rounds[place].iter().map(|round: &Round| TOKENS / round.seconds).collect()
    };
    let program = median(&rates(0));
    for (place, way) in WAYS.iter().enumerate() {
        let times = |time: fn(&Round) -> f64| median(&rounds[place].iter().map(time).collect::<Vec<_>>());
        let (processor, clients) = (times(|round| round.processor), times(|round| round.clients));
        line(&mut report, way.name(), &rates(place), program, &format!("{processor:.2} s | {clients:.2} s"))?;
    }
    line(&mut report, "`onedraw generate -n 64`, with its start", &walls, program, "|")?;
    report += if is_right {
        "\nAll texts were right: a stream's are those of the whole answer, and those of `n` = 64 are the program's.\n"
    } else {
        "\n**Not all texts were right.**\n"
    };
    for text in wrong.iter().chain(&ended.complaints).take(10) {
        writeln!(report, "- {text}")?;
    }
    Ok((report, is_right))
}

fn line(report: &mut String, name: &str, rates: &[f64], program: f64, rest: &str) -> Result<()> {
    let (least, most) =
        rates.iter().fold((f64::MAX, 0.0_f64), |(least, most), &rate| (least.min(rate), most.max(rate)));
    let rate = median(rates);
    writeln!(report, "| {name} | {rate:.0} | {least:.0}–{most:.0} | {:.3} | {rest} |", rate / program)?;
    Ok(())
}

/// Writes the texts with the program. Its own clock begins when the model is there.
fn by_program(arguments: &Arguments) -> Result<Round> {
    /// Where the times of children are in the list of times.
    const CHILDREN: usize = 2;
    let before = processor("self", CHILDREN);
    let output = Command::new(&arguments.program)
        .args(["generate", PROMPT, "-n", &TEXTS.to_string(), "--seed", &SEED.to_string()])
        .args(["--max-tokens", &LENGTH.to_string(), "--ignore-eos", "--format", "json"])
        .output()?;
    let lines = String::from_utf8(output.stdout)?;
    let lines = lines.lines().map(serde_json::from_str).collect::<serde_json::Result<Vec<Value>>>()?;
    let first = lines.first().ok_or("the program has written nothing")?;
    let parts = ["prompt_seconds", "output_seconds", "sampling_seconds", "draft_seconds"];
    let seconds = parts.iter().filter_map(|part| first["timings"][*part].as_f64()).sum();
    if lines.iter().any(|line| line["tokens"].as_array().is_none_or(|tokens| tokens.len() != LENGTH)) {
        return Err("a text of the program has another length".into());
    }
    let texts = lines.iter().map(|line| text(&line["text"])).collect();
    Ok(Round { seconds, processor: processor("self", CHILDREN) - before, clients: 0.0, texts })
}

/// Writes the texts with the server. The connections are there before the clock begins, and answers are read after it
/// has ended.
async fn by_server(server: &Server, way: Way) -> Result<Round> {
    let body = json!({"prompt": PROMPT, "max_tokens": LENGTH, "ignore_eos": true});
    let with = |fields: &[(&str, u64)]| {
        let mut body = body.clone();
        fields.iter().for_each(|(name, value)| body[*name] = (*value).into());
        body
    };
    let asked: Vec<Asked> = match way {
        Way::One => vec![Asked::completion(with(&[("n", TEXTS as u64), ("seed", SEED)]), TEXTS, false)],
        _ => (0..TEXTS as u64)
            .map(|seed| Asked::completion(with(&[("seed", seed)]), 1, way == Way::Streams))
            .collect(),
    };
    let mut clients = Vec::new();
    for _ in &asked {
        let mut client = Client::new(server.address);
        client.open().await?;
        clients.push(client);
    }
    // The connections of the round before are being closed.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (theirs, ours) = (server.processor(), processor("self", 0));
    let begun = Instant::now();
    let sent: Vec<_> = clients
        .into_iter()
        .zip(&asked)
        .map(|(mut client, asked)| {
            let (path, body) = (asked.path.text(), asked.body());
            tokio::spawn(async move { client.post(path, body, None).await })
        })
        .collect();
    let mut arrived: Vec<Arrived> = Vec::new();
    for answer in sent {
        arrived.push(answer.await??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (theirs, ours) = (server.processor() - theirs, processor("self", 0) - ours);
    let mut texts = Vec::new();
    let mut tokens = 0;
    for (asked, arrived) in asked.iter().zip(&arrived) {
        let Answer { texts: read, tokens: written, .. } =
            answer::read(asked, arrived).map_err(|wrong| format!("{}: {wrong:?}", way.name()))?;
        texts.extend(read.iter().map(|choice| text(&choice["text"])));
        tokens += written.unwrap_or_default();
    }
    if tokens as f64 != TOKENS {
        return Err(format!("{}: {tokens} tokens", way.name()).into());
    }
    Ok(Round { seconds, processor: theirs, clients: ours, texts })
}

/// Texts that should be the same and are not.
fn differences(rounds: &[Vec<Round>; 4]) -> Vec<String> {
    let [program, whole, streams, one] = rounds;
    let mut wrong = Vec::new();
    for (way, rounds, right) in [
        (Way::Program, program, program),
        (Way::One, one, program),
        (Way::Whole, whole, whole),
        (Way::Streams, streams, whole),
    ] {
        for (number, round) in rounds.iter().enumerate() {
            let found = round.texts.iter().zip(&right[0].texts).position(|(text, right)| text != right);
            if let Some(place) = found {
                wrong.push(format!("{}, round {number}, text {place}: {:?}", way.name(), round.texts[place]));
            }
        }
    }
    wrong
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
