//! A process of a test: the test's program once more, with a role. It takes requests on stdin and answers on stdout, a
//! line each. It ends with its input, so it never outlives the test.

use std::fmt::Display;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The first argument of a process. No test runner passes it.
const MARK: &str = "--as-process";

/// The silence after which a process counts as failed.
const SILENCE: Duration = Duration::from_mins(2);

/// The beginning of an answer that is an error.
const FAILED: &str = "failed: ";

/// A running process, killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program in a role, and waits until it says that it is ready.
    pub(crate) async fn start(arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(MARK)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        let answers = BufReader::new(answers).lines();
        let mut process = Self { name: arguments.join(" "), child, requests, answers };
        process.expect("ready").await?;
        Ok(process)
    }

    /// Sends a request and does not wait for the answer.
    pub(crate) async fn send(&mut self, request: &str) -> Result<()> {
        let sent = self.requests.write_all(format!("{request}\n").as_bytes()).await;
        sent.map_err(|error| format!("{}: {request}: {error}", self.name).into())
    }

    /// Returns the next answer.
    pub(crate) async fn answer(&mut self) -> Result<String> {
        match timeout(SILENCE, self.answers.next_line()).await {
            Ok(Ok(Some(line))) if !line.starts_with(FAILED) => Ok(line),
            other => Err(format!("{}: {other:?}", self.name).into()),
        }
    }

    /// Waits for an answer that begins with these words, and returns the rest of it.
    pub(crate) async fn expect(&mut self, words: &str) -> Result<String> {
        let line = self.answer().await?;
        let rest = line.strip_prefix(words).map(|rest| rest.trim_start().to_owned());
        rest.ok_or_else(|| format!("{}: expected {words:?}, got {line:?}", self.name).into())
    }

    /// Sends a request, and waits for an answer that begins with these words.
    pub(crate) async fn ask(&mut self, request: &str, words: &str) -> Result<String> {
        self.send(request).await?;
        self.expect(words).await
    }

    /// Ends the process with SIGKILL: nothing is flushed, closed or released. An error if it had ended by itself.
    pub(crate) async fn kill(mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(format!("{} had ended before it was killed: {status}", self.name).into()),
            None => Ok(self.child.kill().await?),
        }
    }

    /// Closes the store in order, and waits for the end of the process.
    pub(crate) async fn close(mut self) -> Result<()> {
        self.ask("close", "closed").await?;
        let status = timeout(SILENCE, self.child.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.name).into()) }
    }
}

/// Returns the role and its arguments if this program was started as a process.
pub(crate) fn role() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next().as_deref() == Some(MARK)).then(|| arguments.collect())
}

/// Answers, on stdout.
pub(crate) fn say(answer: impl Display) {
    let mut stdout = std::io::stdout().lock();
    // The process that would read it may be gone; then the end of the input ends this one.
    let _ = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
}

/// Says why a role failed, and ends the process.
pub(crate) fn end_if_failed(result: Result<()>) {
    if let Err(error) = result {
        say(format_args!("{FAILED}{error}"));
        std::process::exit(1);
    }
}

/// The requests to this process.
pub(crate) struct Requests(mpsc::UnboundedReceiver<String>);

impl Requests {
    /// Starts to read. The end of the input ends the process at once, whatever it does.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        // Outside of the runtime, which would wait for its threads, and this one may wait for input forever.
        std::thread::spawn(move || {
            let lines = std::io::stdin().lines().map_while(std::result::Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
            std::process::exit(0);
        });
        Self(receiver)
    }

    /// Returns the words of the next request.
    pub(crate) async fn next(&mut self) -> Result<Vec<String>> {
        let line = self.0.recv().await.ok_or("the input has ended")?;
        Ok(line.split(' ').map(str::to_owned).collect())
    }
}
