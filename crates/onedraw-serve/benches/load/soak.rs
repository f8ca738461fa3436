//! Clients that send mixed requests for some time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::Result;
use crate::again::{Again, again};
use crate::arguments::Arguments;
use crate::client::Client;
use crate::program::{Ended, Server};
use crate::report::{grouped, heading, load};
use crate::request::Requests;
use crate::tally::{Count, Outcome, Tally};

/// How long a server may need to notice that its last clients have left.
const NOTICE: Duration = Duration::from_secs(5);

/// Runs it, and gives the report and whether all answers were right.
pub async fn soak(arguments: &Arguments) -> Result<(String, bool)> {
    let busy_before = load();
    let server = Server::start(arguments)?;
    let mut client = Client::new(server.address);
    let (outcomes, arriving) = channel();
    let reader = std::thread::spawn(move || Tally::of(&arriving));
    let begun = Instant::now();
    let end = begun + arguments.time;
    let clients: Vec<_> = (0..arguments.clients)
        .map(|number| {
            let (client, requests) = (Client::new(server.address), Requests::new(arguments.seed, number));
            tokio::spawn(send(number, client, requests, end, outcomes.clone()))
        })
        .collect();
    drop(outcomes);
    let mut memory = Vec::new();
    let mut second = tokio::time::interval(Duration::from_secs(1));
    while clients.iter().any(|client| !client.is_finished()) {
        second.tick().await;
        if Instant::now() < end {
            memory.extend(server.memory());
        }
    }
    let time = begun.elapsed();
    let mut tally = reader.join().map_err(|_| "the answers could not be read")?;
    let metrics = quiet(&mut client).await?;
    let idle = server.memory();
    eprintln!("{} requests in {:.0} s, {} finished", tally.sent, time.as_secs_f64(), tally.finished);
    let again = again(&mut client, &mut tally.notes, arguments.again, arguments.seed).await?;
    let last = quiet(&mut client).await?;
    let after = server.memory();
    let ended = server.end()?;
    let is_idle = [&metrics, &last].iter().all(|metrics| {
        ["onedraw_running", "onedraw_waiting"].iter().all(|name| metrics.get(*name) == Some(&0.0))
    });
    let wrong = [&tally.failed, &tally.lost, &tally.doubled, &again.different];
    let is_right = is_idle && ended.code == Some(0) && wrong.iter().all(|count| count.number == 0);

    let mut report = heading("a server under load", arguments);
    writeln!(
        report,
        "{} clients for {:.0} seconds on the server's own machine. In the minute before, {busy_before} processes wanted to run; in the last one, {}.\n",
        arguments.clients,
        arguments.time.as_secs_f64(),
        load()
    )?;
    report += &requests(&tally, &again, time);
    report += &tally.times();
    report += &rates(&tally, &metrics, time);
    report += &of_server(&memory, [idle, after], is_idle, &metrics, &ended);
    report += if is_right { "\nAll answers were right.\n" } else { "\n**Not all answers were right.**\n" };
    for (name, count) in [("failed", &tally.failed), ("lost", &tally.lost), ("doubled", &tally.doubled)] {
        report += &examples(name, count);
    }
    report += &examples("different alone", &again.different);
    Ok((report, is_right))
}

/// Sends requests until the end.
async fn send(
    client: usize,
    mut connection: Client,
    mut requests: Requests,
    end: Instant,
    outcomes: Sender<Outcome>,
) {
    let mut number = 0;
    while Instant::now() < end {
        let asked = requests.next();
        let arrived = connection.post(asked.path.text(), asked.body(), asked.leave).await;
        let arrived = arrived.map_err(|error| error.to_string());
        if arrived.is_err() {
            connection.close();
        }
        if outcomes.send(Outcome { client, number, asked, arrived }).is_err() {
            return;
        }
        number += 1;
    }
}

/// The numbers of the server once nothing is being written any more, or after some time.
async fn quiet(client: &mut Client) -> Result<BTreeMap<String, f64>> {
    let begun = Instant::now();
    loop {
        let text = client.get("/metrics").await?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let metrics: BTreeMap<String, f64> = lines
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect();
        let busy: f64 =
            ["onedraw_running", "onedraw_waiting"].iter().filter_map(|name| metrics.get(*name)).sum();
        if busy == 0.0 || begun.elapsed() > NOTICE {
            return Ok(metrics);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn requests(tally: &Tally, again: &Again, time: Duration) -> String {
    let [failed, lost, doubled] = [&tally.failed, &tally.lost, &tally.doubled].map(|count| count.number);
    format!(
        "| requests | number |\n|---|---:|\n\
         | sent in {:.0} s | {} |\n| finished | {} |\n| left by their client | {} |\n\
         | failed | {failed} |\n| lost, wholly or in part | {lost} |\n| with something twice | {doubled} |\n\
         | asked again alone, in {:.0} s | {} ({} texts; of {} requests the beginning, which was all that had been read) |\n\
         | different alone | {} |\n\n",
        time.as_secs_f64(),
        grouped(tally.sent as u64),
        grouped(tally.finished as u64),
        grouped(tally.left as u64),
        again.time.as_secs_f64(),
        grouped(again.requests as u64),
        grouped(again.texts as u64),
        grouped(again.beginnings as u64),
        again.different.number,
    )
}

fn rates(tally: &Tally, metrics: &BTreeMap<String, f64>, time: Duration) -> String {
    let number = |name: &str| metrics.get(name).copied().unwrap_or(f64::NAN);
    let (tokens, seconds) = (number("onedraw_output_tokens_total"), time.as_secs_f64());
    let average = |name: &str| number(&format!("{name}_sum")) / number(&format!("{name}_count"));
    let (batch, pass) = (average("onedraw_batch_texts"), 1e3 * average("onedraw_pass_seconds"));
    let queue = 1e3 * average("onedraw_queue_seconds");
    format!(
        "\n| rate | |\n|---|---:|\n| requests finished per second | {:.1} |\n\
         | tokens written per second, those of answers that were left too | {:.0} |\n\
         | texts in a pass, on average | {batch:.1} |\n| a pass, on average | {pass:.1} ms |\n\
         | how long a prompt waited for places, on average | {queue:.1} ms |\n",
        tally.finished as f64 / seconds,
        tokens / seconds,
    )
}

/// What is said of the server. `memory` is that of each second in which requests were sent.
fn of_server(
    memory: &[u64],
    [idle, after]: [Option<u64>; 2],
    is_idle: bool,
    metrics: &BTreeMap<String, f64>,
    ended: &Ended,
) -> String {
    let mut table = "\n| the server | |\n|---|---:|\n".to_owned();
    if let (Some(early), Some(last)) = (memory.get(memory.len() / 10), memory.last()) {
        let at = |share: usize| mebibytes(memory[share * (memory.len() - 1) / 100]);
        table += &format!(
            "| memory after 10 % of the time | {} |\n| after 25, 50, 75 % | {}, {}, {} |\n| at the end of the time | {} |\n\
             | the end / after 10 % | {:.3} |\n| the most | {} |\n\
             | once all was answered | {} |\n| after all was asked again | {} |\n",
            mebibytes(*early),
            at(25),
            at(50),
            at(75),
            mebibytes(*last),
            *last as f64 / *early as f64,
            mebibytes(memory.iter().max().copied().unwrap_or_default()),
            mebibytes(idle.unwrap_or_default()),
            mebibytes(after.unwrap_or_default()),
        );
    }
    let left = metrics.get("onedraw_cancelled_texts_total").copied().unwrap_or_default();
    table += &format!("| texts that it stopped because their client had left | {left} |\n");
    table += &format!(
        "| writing and waiting at the end | {} |\n",
        if is_idle { "nothing" } else { "**something**" }
    );
    let code = ended.code.map_or("**a signal**".to_owned(), |code| code.to_string());
    table += &format!("| exit code after SIGTERM | {code}, after {:.2} s |\n", ended.time.as_secs_f64());
    for line in &ended.complaints {
        table += &format!("\nIts log: `{line}`\n");
    }
    table
}

fn mebibytes(kibibytes: u64) -> String {
    format!("{:.1} MiB", kibibytes as f64 / 1024.0)
}

fn examples(name: &str, count: &Count) -> String {
    let heading = if count.number > 0 { format!("\n## {name}: {}\n\n", count.number) } else { String::new() };
    heading + &count.examples.iter().map(|example| format!("```text\n{example}\n```\n")).collect::<String>()
}
