//! An endpoint in service: the fake control core behind it, on a thread of its own.

use crate::client::{Answer, Client};
use crate::fake::Fake;
use flowgate::control::elbv2::{Endpoint, Limits, serve};
use flowgate::control::node::Elbv2;
use flowgate::control::socket::methods;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// ARNs of what the fake begins with.
pub const BALANCER: &str =
    "arn:aws:elasticloadbalancing:xx-local-1:000000000000:loadbalancer/gwy/gw/00000000000000aa";
pub const LISTENER: &str =
    "arn:aws:elasticloadbalancing:xx-local-1:000000000000:listener/gwy/gw/00000000000000aa/00000000000000bb";
pub const GROUP: &str =
    "arn:aws:elasticloadbalancing:xx-local-1:000000000000:targetgroup/fw/00000000000000cc";
pub const SPARE: &str =
    "arn:aws:elasticloadbalancing:xx-local-1:000000000000:targetgroup/spare/00000000000000dd";

/// Limits that a test can wait for.
pub const LIMITS: Limits =
    Limits { connections: 8, patience: Duration::from_millis(1500), silence: Duration::from_millis(2500) };

pub struct Served {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start() -> Self {
        Served::start_with("", Limits::default())
    }

    /// With these lines in the configuration's section.
    pub fn start_with(section: &str, limits: Limits) -> Self {
        let section = format!("address = \"127.0.0.1:0\"\n{section}");
        let config: Elbv2 = toml::from_str(&section).unwrap();
        let (ready, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, async {
                let endpoint = Endpoint::bind(&config).unwrap();
                ready.send(endpoint.address().unwrap()).unwrap();
                let methods = Rc::new(methods::dispatcher());
                tokio::select! {
                    ended = serve(endpoint, Rc::new(Fake::new()), methods, limits) => panic!("it ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
        });
        Served { address: started.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// One action on a connection of its own; `form` is what follows the action's name.
    pub fn act(&self, action: &str, form: &str) -> Answer {
        self.connect().post(&format!("Action={action}&Version=2015-12-01{form}"))
    }

    /// The answer to an action that is done.
    pub fn done(&self, action: &str, form: &str) -> String {
        let answer = self.act(action, form);
        assert_eq!(answer.status, 200, "{action}{form}: {}", answer.body);
        assert!(answer.body.starts_with(&format!("<{action}Response xmlns=")), "{}", answer.body);
        answer.body
    }

    /// The status, code and message of an action that is refused.
    pub fn refused(&self, action: &str, form: &str) -> (u16, String, String) {
        self.act(action, form).refusal()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there is the test's failure already, or follows from it.
            thread.join().ok();
        }
    }
}
