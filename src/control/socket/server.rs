//! The server: accepts connections and runs each to its end.
//!
//! The control core runs [`serve`] as a task of its current-thread runtime, inside a `LocalSet`. Promises that
//! whatever clients do, what is held for them is bounded: [`Limits::connections`] connections, one line
//! and one answer each, and the events of one shared, bounded channel. A full house is no lock-out: a newcomer
//! takes the place of the connection that has been silent longest, and one that only reads never an admin's. Nor is a
//! crowd of newcomers one: each has [`GRACE`] to ask for something before it has to go for another of its kind.

#![forbid(unsafe_code)]

use super::connection::{self, CloseReason};
use super::dispatcher::Dispatcher;
use super::listener::ControlListener;
use super::role::Role;
use super::service::Service;
use super::session::{Limits, Session, Subscribers};
use crate::control::panics::in_conversation;
use std::borrow::Borrow;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// How long to leave a listener alone that fails to accept, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection that has been silent may not be shown out for one of the same role. Else a thousand that
/// connect at once would show out an operator's between its connecting and its first request.
const GRACE: Duration = Duration::from_millis(100);

/// Serves `service`'s methods at `listener` until the future is dropped, which closes every connection and, if
/// nobody else has the listener, removes the socket's file.
///
/// # Errors
/// When the runtime cannot take the socket.
///
/// # Panics
/// Outside a `LocalSet` or a local runtime.
pub async fn serve(
    listener: impl Borrow<ControlListener>,
    service: Rc<dyn Service>,
    dispatcher: Rc<Dispatcher>,
    limits: Limits,
) -> io::Result<()> {
    let listener: &ControlListener = listener.borrow();
    let (incoming, admins) = (listener.listener()?, listener.admins());
    let subscribers = Subscribers::new(limits.subscribers);
    let mut sessions: Vec<Weak<Session>> = Vec::new();
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            Some(ended) = connections.join_next() => {
                note_end(ended);
                continue;
            }
            // Those whose place is taken need a moment to end, and are not to pile up.
            accepted = incoming.accept(), if connections.len() < 2 * limits.connections => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(name: "socket_cannot_accept", %error, "the control socket cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let peer = match admins.peer(&stream) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!(name: "socket_peer_unknown", %error, "the kernel does not say who has connected to the control socket");
                continue;
            }
        };
        let has_room = loop {
            sessions.retain(|session| session.strong_count() > 0);
            if sessions.len() < limits.connections {
                break true;
            }
            match make_room(&mut sessions, peer.role) {
                Room::Made => break true,
                Room::None => break false,
                Room::At(due) => tokio::select! {
                    () = tokio::time::sleep_until(due) => {}
                    Some(ended) = connections.join_next() => note_end(ended),
                },
            }
        };
        if !has_room {
            connections.spawn_local(connection::turn_away(stream, CloseReason::Full));
            continue;
        }
        let session = Rc::new(Session::new(peer, Rc::clone(&subscribers)));
        sessions.push(Rc::downgrade(&session));
        connections.spawn_local(in_conversation(connection::run(
            stream,
            session,
            Rc::clone(&service),
            Rc::clone(&dispatcher),
        )));
    }
}

fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(name: "socket_connection_failed", %error, "a control connection's task ended by itself");
    }
}

/// Whether a newcomer has a place.
enum Room {
    /// A connection was asked to end for it.
    Made,
    /// Not before this.
    At(Instant),
    /// There is none to be had.
    None,
}

/// Asks a connection that does not subscribe to end, for the sake of a newcomer of the role `newcomer`: of those
/// that may do least and no more than the newcomer, the one that has been silent longest. One that only reads is
/// worth no wait, as an admin may stand behind it.
fn make_room(sessions: &mut Vec<Weak<Session>>, newcomer: Role) -> Room {
    let silent = sessions
        .iter()
        .enumerate()
        .filter_map(|(index, session)| Some((index, session.upgrade()?)))
        .filter(|(_, session)| !session.is_subscribed() && session.role() <= newcomer)
        .min_by_key(|(_, session)| (session.role(), session.active()));
    let Some((index, session)) = silent else { return Room::None };
    let due = session.active() + GRACE;
    if session.role() == newcomer && Instant::now() < due {
        return if newcomer == Role::Admin { Room::At(due) } else { Room::None };
    }
    session.evict();
    sessions.swap_remove(index);
    Room::Made
}
