//! The server's process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::arguments::Arguments;

/// How long a server may take to end; the texts that are being written have 30 seconds.
const END: Duration = Duration::from_secs(60);

/// `onedraw serve`, running.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// Where its log goes.
    log: PathBuf,
}

/// How a server ended.
#[derive(Debug)]
pub struct Ended {
    /// How long it took after SIGTERM.
    pub time: Duration,
    /// The exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// The lines of its log that are no requests, the first few.
    pub complaints: Vec<String>,
}

impl Server {
    /// Starts it on a free port and waits for its address.
    pub fn start(arguments: &Arguments) -> Result<Self> {
        let log = std::env::temp_dir().join(format!("onedraw-load-{}.log", std::process::id()));
        let mut child = Command::new(&arguments.program)
            .args(["serve", "--port", "0"])
            .args(&arguments.server_flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", arguments.program.display()))?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("the server has no standard output")?;
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            return Err(format!("the server did not start: {}", fs::read_to_string(&log)?).into());
        };
        Ok(Self { child, address, log })
    }

    /// The memory that it has now, in KiB; `None` where there is no /proc.
    pub fn memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse().ok()
    }

    /// The processor time that it has had, in seconds.
    pub fn processor(&self) -> f64 {
        processor(&self.child.id().to_string(), 0)
    }

    /// Ends it as a service manager does.
    pub fn end(mut self) -> Result<Ended> {
        let begun = Instant::now();
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if begun.elapsed() > END {
                self.child.kill()?;
                break self.child.wait()?;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let time = begun.elapsed();
        let log = fs::read_to_string(&self.log)?;
        let told = log.lines().filter(|line| !line.contains(" INFO "));
        let complaints: Vec<String> = told.take(10).map(str::to_owned).collect();
        if complaints.is_empty() {
            fs::remove_file(&self.log)?;
        } else {
            eprintln!("the log of the server: {}", self.log.display());
        }
        Ok(Ended { time, code: status.code(), complaints })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A measurement that failed leaves no server behind. After `end` there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor time of a process (`self` or a number), or with `of_children` 2 that of its children that have
/// ended, in seconds.
pub fn processor(process: &str, of_children: usize) -> f64 {
    /// What Linux counts in, on all machines of today.
    const TICKS: f64 = 100.0;
    /// The place of the first of two times behind the name.
    const TIMES: usize = 11;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let times = fields.skip(TIMES + of_children).take(2);
    times.map(|time| time.parse().unwrap_or(0.0)).sum::<f64>() / TICKS
}
