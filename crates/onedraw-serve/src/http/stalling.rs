//! A connection whose client may not stop reading for ever, nor read too slowly.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails a write that makes no progress for too long, and a client that is behind for too long.
pub(super) struct Stalling<S> {
    stream: S,
    still: Watch,
    behind: Watch,
}

/// A time that runs while something lasts.
struct Watch {
    most: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    fn new(most: Duration) -> Self {
        Self { most, timer: None }
    }

    fn stop(&mut self) {
        self.timer = None;
    }

    /// Whether it has run for too long; it starts with the first question.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.most)));
        timer.as_mut().poll(context).is_ready()
    }
}

impl<S> Stalling<S> {
    /// A client may read nothing for `still`, and have unread bytes of its answer for `behind`.
    pub(super) fn new(stream: S, still: Duration, behind: Duration) -> Self {
        Self { stream, still: Watch::new(still), behind: Watch::new(behind) }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.still.stop();
            return polled;
        }
        // Both are asked, so that both wake this connection.
        let over = [self.still.is_over(context), self.behind.is_over(context)];
        match over {
            [true, _] => Poll::Ready(Err(late("the client stopped reading"))),
            [_, true] => Poll::Ready(Err(late("the client reads too slowly"))),
            [false, false] => Poll::Pending,
        }
    }
}

fn late(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        // hyper flushes once everything it had has been written.
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.behind.stop();
        }
        self.watch(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(polled, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const STILL: Duration = Duration::from_secs(60);
    const BEHIND: Duration = Duration::from_secs(600);

    /// Writes an answer of 4,096 bytes to a client that reads a byte at a time, and says how long that took.
    async fn written(pause: Duration) -> (io::Result<()>, Duration) {
        let (stream, mut client) = duplex(16);
        let reading = tokio::spawn(async move {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        });
        let (begun, mut server) = (Instant::now(), Stalling::new(stream, STILL, BEHIND));
        let result = async {
            server.write_all(&[0; 4096]).await?;
            server.flush().await
        };
        let result = (result.await, begun.elapsed());
        reading.abort();
        result
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_be_slow_but_not_for_ever() {
        let (result, time) = written(Duration::from_millis(100)).await;
        assert!(result.is_ok() && time < BEHIND, "{result:?} after {time:?}");
        let (result, time) = written(Duration::from_secs(1)).await;
        assert_eq!(result.expect_err("too slow").to_string(), "the client reads too slowly");
        assert_eq!(time.as_secs(), BEHIND.as_secs());
        let (result, time) = written(2 * STILL).await;
        assert_eq!(result.expect_err("no reader").to_string(), "the client stopped reading");
        assert_eq!(time.as_secs(), STILL.as_secs());
    }

    /// Each part of a stream that was read to its end begins a new time.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_keeps_up_may_take_any_time() {
        let (stream, mut client) = duplex(16);
        tokio::spawn(async move {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut server = Stalling::new(stream, STILL, BEHIND);
        for _ in 0..10 {
            server.write_all(&[0; 400]).await.expect("written");
            server.flush().await.expect("flushed");
        }
    }
}
