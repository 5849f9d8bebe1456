//! Answers health checks: TCP by accepting, HTTP by a code, or in one of the ways in which an appliance
//! fails to.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::behaviour::Health;
use super::packets::take_nothing;
use super::{ReflectorError, Shared};

/// How long a client may take over its request, and over closing after the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How soon a port that somebody took while checks were refused is asked for again.
const RETRY: Duration = Duration::from_millis(200);

/// Listens for health checks as long as they are not to be refused.
pub(super) struct Listener {
    address: Ipv4Addr,
    port: u16,
    mode: watch::Receiver<Health>,
    socket: Option<TcpListener>,
    shared: Arc<Shared>,
}

impl Listener {
    pub(super) fn bind(
        address: Ipv4Addr,
        port: u16,
        mode: watch::Receiver<Health>,
        shared: Arc<Shared>,
    ) -> Result<Listener, ReflectorError> {
        let mut listener = Listener { address, port, mode, socket: None, shared };
        listener.adapt().map_err(|error| ReflectorError::HealthPort { address, port, error })?;
        Ok(listener)
    }

    /// Opens, muffles or closes the socket as the mode wants it.
    fn adapt(&mut self) -> io::Result<()> {
        let mode = *self.mode.borrow();
        if mode == Health::Refuse {
            self.socket = None;
            return Ok(());
        }
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => listen(self.address, self.port)?,
        };
        if mode == Health::Silent {
            // The filter drops SYNs before the kernel can answer them.
            SockRef::from(&socket).attach_filter(&take_nothing())?;
        } else if let Err(error) = SockRef::from(&socket).detach_filter()
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        self.socket = Some(socket);
        Ok(())
    }

    pub(super) async fn run(mut self) -> Infallible {
        let mut changes = self.mode.clone();
        loop {
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => self.adapt_at_last().await,
                    // Nobody can change the mode any more: go on with the last.
                    Err(_) => loop { accept(self.socket.as_ref(), &self.mode, &self.shared).await },
                },
                () = accept(self.socket.as_ref(), &self.mode, &self.shared) => {}
            }
        }
    }

    async fn adapt_at_last(&mut self) {
        while let Err(error) = self.adapt() {
            warn!(port = self.port, %error, "cannot listen for health checks, trying again");
            sleep(RETRY).await;
        }
    }
}

fn listen(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind((address, port))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Takes one connection and leaves it to a task of its own.
async fn accept(socket: Option<&TcpListener>, mode: &watch::Receiver<Health>, shared: &Shared) {
    let Some(socket) = socket else { return pending().await };
    match socket.accept().await {
        Ok((stream, _)) => {
            shared.counters.health_checks.fetch_add(1, Relaxed);
            let mode = mode.clone();
            tokio::spawn(async move {
                // A client that went away, or took too long, is no concern of ours.
                serve(stream, mode).await.ok();
            });
        }
        // Out of descriptors, or the client was gone already.
        Err(error) => {
            warn!(%error, "a health check's connection was not accepted");
            sleep(RETRY).await;
        }
    }
}

/// Answers one connection's request. A TCP check closes without one.
async fn serve(mut stream: TcpStream, mut mode: watch::Receiver<Health>) -> io::Result<()> {
    let mut request = [0; 8_192];
    let mut len = 0;
    while !request[..len].windows(4).any(|end| end == b"\r\n\r\n") {
        match timeout(PATIENCE, stream.read(&mut request[len..])).await?? {
            0 => return Ok(()),
            more => len += more,
        }
    }
    // An appliance that fell silent leaves its clients waiting; when it is told to speak again, it does.
    let code = loop {
        match *mode.borrow_and_update() {
            Health::Answer => break 200,
            Health::Code(code) => break code,
            Health::Refuse => return Ok(()),
            Health::Silent => {}
        }
        if mode.changed().await.is_err() {
            pending::<()>().await;
        }
    };
    let body = if request.starts_with(b"HEAD ") { "" } else { "flowgate-reflector\n" };
    let answer = format!(
        "HTTP/1.1 {code} \r\nContent-Type: text/plain\r\nContent-Length: 19\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Reading to the client's end keeps the kernel from resetting the connection under the answer.
    while timeout(PATIENCE, stream.read(&mut request)).await?? > 0 {}
    Ok(())
}
