//! Connections: their limits, and the time that a client has to send and to take what is sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::answer::AnswerBody;

/// How long a client may take to send the head of a request, also the next one of its connection.
const PATIENCE_FOR_HEAD: Duration = Duration::from_secs(15);

/// How long a client may take to accept more of an answer.
const PATIENCE_FOR_READER: Duration = Duration::from_secs(30);

/// The maximum number of fields of a head, and of its bytes.
const MOST_FIELDS: usize = 64;
const LARGEST_HEAD: usize = 32 << 10;

/// Answers the requests of a connection until it ends.
pub(crate) async fn answer<S>(stream: TcpStream, service: S)
where
    S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = std::convert::Infallible>,
{
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE_FOR_HEAD)
        .max_headers(MOST_FIELDS)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(PatientStream { stream, waits: None }), service);
    // A connection that breaks, or a head that cannot be read, concerns nobody else.
    let _ = connection.await;
}

/// A connection that is given up when nobody reads from it any more.
struct PatientStream {
    stream: TcpStream,
    /// Since when nothing could be written.
    waits: Option<Pin<Box<Sleep>>>,
}

impl PatientStream {
    /// What came of writing, or that the client took too long.
    fn within_patience<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE_FOR_READER)));
        waits.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_patience(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.within_patience(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
