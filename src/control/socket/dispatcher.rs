//! From a line to its answer: the table of methods and what is common to all of them.
//!
//! A method is one function from typed parameters to a typed result. It is registered once, with its name
//! and one sentence, by what it does: [`Dispatcher::method`] for one that only reads, [`Dispatcher::change`]
//! for one that changes the configuration. Who may call it, the [`Common`] parameters of changes, reading the
//! parameters (and saying exactly what is wrong with them), writing the result and describing both as JSON
//! Schema follow. Called by every connection, one line at a time.

#![forbid(unsafe_code)]

use super::acting::Acting;
use super::common::{Common, read};
use super::methods::{fault, node::Nothing};
use super::openrpc;
use super::role::Role;
use super::rpc::{self, Id, METHOD_NOT_FOUND, Request, RpcError};
use super::service::Service;
use super::session::Session;
use super::views::Plan;
use crate::control::nearest::nearest;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// What a method may use besides its parameters.
pub struct Call<'a> {
    /// The control core.
    pub service: &'a dyn Service,
    /// The connection that called.
    pub session: &'a Session,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<String, RpcError>> + 'a>>;
type Run = Box<dyn for<'a> Fn(&'a Call<'a>, Map<String, Value>) -> Running<'a>>;

/// What a registered method is.
#[derive(Clone, Copy)]
pub struct Method {
    /// As a request names it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The least role that may call it.
    pub role: Role,
    /// Whether it takes the [`Common`] parameters of changes besides its own.
    pub is_change: bool,
    /// The schema of its own parameters.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its result.
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

impl Method {
    fn new<P: JsonSchema, R: JsonSchema>(
        name: &'static str,
        summary: &'static str,
        role: Role,
        is_change: bool,
    ) -> Self {
        let params = |generator: &mut SchemaGenerator| P::json_schema(generator);
        let result = |generator: &mut SchemaGenerator| R::json_schema(generator);
        Method { name, summary, role, is_change, params, result }
    }
}

/// The table of methods.
#[derive(Default)]
pub struct Dispatcher {
    methods: BTreeMap<&'static str, (Method, Run)>,
}

impl Dispatcher {
    /// Registers a method that only reads, and is answered from what the control core has at hand.
    pub fn method<P, R>(
        &mut self,
        name: &'static str,
        summary: &'static str,
        function: fn(&Call<'_>, P) -> Result<R, RpcError>,
    ) where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
    {
        self.add::<P, R>(name, summary, Role::ReadOnly, false, at_once(function));
    }

    /// Registers a method for admins that changes something else than the configuration.
    pub fn admin_method<P, R>(
        &mut self,
        name: &'static str,
        summary: &'static str,
        function: fn(&Call<'_>, P) -> Result<R, RpcError>,
    ) where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
    {
        self.add::<P, R>(name, summary, Role::Admin, false, at_once(function));
    }

    /// Registers a method that changes the configuration: only admins may call it, and it takes the
    /// [`Common`] parameters besides its own. The configuration cannot change between their check and
    /// `function`.
    pub fn change<P, R>(
        &mut self,
        name: &'static str,
        summary: &'static str,
        function: fn(&Call<'_>, P) -> Result<R, RpcError>,
    ) where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
    {
        self.waiting_change(name, summary, async move |call: &Call<'_>, params| function(call, params));
    }

    /// Registers a method that changes the configuration and waits for the disk to know what to. Others' changes wait
    /// meanwhile.
    pub fn waiting_change<P, R, F>(&mut self, name: &'static str, summary: &'static str, function: F)
    where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
        F: AsyncFn(&Call<'_>, P) -> Result<R, RpcError> + 'static,
    {
        let function = Rc::new(function);
        let run: Run = Box::new(move |call, mut params| {
            let function = Rc::clone(&function);
            Box::pin(async move {
                let common = Common::take(&mut params)?;
                let params = read(params)?;
                let turn = call.service.turn().await;
                common.check(call.service.state().generation())?;
                let acting = Acting::new(call.service, call.session.author());
                let result = function(&Call { service: &acting, session: call.session }, params).await?;
                if common.dry_run {
                    drop(turn);
                    return write(&acting.plan().await);
                }
                acting.make(turn).await.map_err(|error| fault::of_storing(&error))?;
                write(&result)
            })
        });
        self.add::<P, R>(name, summary, Role::Admin, true, run);
    }

    /// Registers a method that only reads, and waits for the workers or the disk.
    pub fn waiting_method<P, R, F>(&mut self, name: &'static str, summary: &'static str, function: F)
    where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
        F: AsyncFn(&Call<'_>, P) -> Result<R, RpcError> + 'static,
    {
        self.add_waiting(name, summary, Role::ReadOnly, function);
    }

    /// Registers a method for admins that changes something else than the configuration, and waits for the disk.
    pub fn waiting_admin_method<P, R, F>(&mut self, name: &'static str, summary: &'static str, function: F)
    where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
        F: AsyncFn(&Call<'_>, P) -> Result<R, RpcError> + 'static,
    {
        self.add_waiting(name, summary, Role::Admin, function);
    }

    fn add_waiting<P, R, F>(&mut self, name: &'static str, summary: &'static str, role: Role, function: F)
    where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
        F: AsyncFn(&Call<'_>, P) -> Result<R, RpcError> + 'static,
    {
        let function = Rc::new(function);
        let run: Run = Box::new(move |call, params| {
            let function = Rc::clone(&function);
            Box::pin(async move { write(&function(call, read(params)?).await?) })
        });
        self.add::<P, R>(name, summary, role, false, run);
    }

    fn add<P: JsonSchema, R: JsonSchema>(
        &mut self,
        name: &'static str,
        summary: &'static str,
        role: Role,
        is_change: bool,
        run: Run,
    ) {
        self.insert(Method::new::<P, R>(name, summary, role, is_change), run);
    }

    fn insert(&mut self, method: Method, run: Run) {
        let before = self.methods.insert(method.name, (method, run));
        debug_assert!(before.is_none(), "method {} is registered twice", method.name);
    }

    /// Every method, by name.
    pub fn methods(&self) -> impl Iterator<Item = &Method> {
        self.methods.values().map(|(method, _)| method)
    }

    /// The OpenRPC document of the methods there are.
    pub fn document(&self) -> Value {
        openrpc::document(self.methods())
    }

    /// Registers `rpc.discover`, which answers with the document of the methods there are then: the last to
    /// be registered.
    pub(super) fn describe_itself(&mut self) {
        let summary = "Describes every method, its parameters and its result, as an OpenRPC document.";
        let itself =
            Method::new::<Nothing, openrpc::Document>("rpc.discover", summary, Role::ReadOnly, false);
        let mut all: Vec<Method> = self.methods().copied().chain([itself]).collect();
        all.sort_by_key(|method| method.name);
        let text = OnceCell::<String>::new();
        let run: Run = Box::new(move |_, params| {
            let answer = read(params)
                .map(|Nothing {}| text.get_or_init(|| openrpc::document(all.iter()).to_string()).clone());
            Box::pin(std::future::ready(answer))
        });
        self.insert(itself, run);
    }

    /// The line to answer `line` with, newline included; none for a notification.
    pub async fn answer(&self, call: &Call<'_>, line: &[u8]) -> Option<String> {
        let Request { id, method, params } = match rpc::parse(line) {
            Ok(request) => request,
            Err((id, error)) => return Some(rpc::refusal(&id, &error)),
        };
        let outcome = self.call(call, &method, params).await;
        let id: Id = id?;
        Some(match outcome {
            Ok(result) => rpc::answer(&id, &result),
            Err(error) => rpc::refusal(&id, &error),
        })
    }

    /// What the method `name` answers to `params`, as JSON.
    ///
    /// # Errors
    /// The method's refusal, or that there is no such method for this caller.
    pub async fn call(
        &self,
        call: &Call<'_>,
        name: &str,
        params: Map<String, Value>,
    ) -> Result<String, RpcError> {
        let (method, run) = self.methods.get(name).ok_or_else(|| self.unknown(name))?;
        call.session.role().check(method.role, method.name)?;
        run(call, params).await
    }

    fn unknown(&self, name: &str) -> RpcError {
        let shown: String = name.chars().take(64).collect();
        let message = format!("there is no method {}", Value::from(shown.as_str()));
        let error = RpcError::new(METHOD_NOT_FOUND, "InvalidAction", message).at("method");
        match nearest(&shown, self.methods.keys().copied()) {
            Some(nearest) => error.hint(format!("did you mean {nearest}?")),
            None => error,
        }
    }
}

/// What `change` would do, which is carried out on a copy of the objects.
pub(super) async fn rehearse<R>(
    call: &Call<'_>,
    change: impl FnOnce(&Call<'_>) -> Result<R, RpcError>,
) -> Result<Plan, RpcError> {
    let acting = Acting::new(call.service, call.session.author());
    change(&Call { service: &acting, session: call.session })?;
    Ok(acting.plan().await)
}

fn at_once<P, R>(function: fn(&Call<'_>, P) -> Result<R, RpcError>) -> Run
where
    P: DeserializeOwned + JsonSchema + 'static,
    R: Serialize + 'static,
{
    Box::new(move |call, params| {
        let result = read(params).and_then(|params| function(call, params)).and_then(|r| write(&r));
        Box::pin(std::future::ready(result))
    })
}

fn write(result: &impl Serialize) -> Result<String, RpcError> {
    serde_json::to_string(result).map_err(|error| {
        RpcError::new(
            rpc::INTERNAL_ERROR,
            "InternalFailure",
            format!("the answer cannot be written: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Role;
    use crate::control::socket::methods;

    #[test]
    fn a_misspelt_method_is_answered_with_the_nearest_there_is() {
        let table = methods::dispatcher();
        let hint = |name: &str| table.unknown(name).data.hint;
        assert_eq!(hint("describe-wrokers").as_deref(), Some("did you mean describe-workers?"));
        assert_eq!(hint("RegisterTargets").as_deref(), Some("did you mean register-targets?"));
        assert_eq!(hint("xyzzy"), None);
        assert_eq!(hint(""), None);
    }

    #[test]
    fn what_changes_anything_is_for_admins_and_the_rest_only_reads() {
        let changes = [
            "create-",
            "modify-",
            "delete-",
            "set-",
            "add-",
            "remove-",
            "register-",
            "deregister-",
            "apply",
            "rollback",
        ];
        // These change what the daemon does beside the objects.
        let acts = ["set-log-level", "start-", "stop-"];
        for method in methods::dispatcher().methods() {
            // These change nothing of what is kept, but what runs; and a capture shows what others say to each other.
            let is_act = method.name == "capture" || acts.iter().any(|verb| method.name.starts_with(verb));
            let is_change = !is_act && changes.iter().any(|verb| method.name.starts_with(verb));
            let role = if is_change || is_act { Role::Admin } else { Role::ReadOnly };
            assert_eq!((method.role, method.is_change), (role, is_change), "{}", method.name);
        }
        let debug = methods::debug_dispatcher();
        let of = |name: &str| debug.methods().find(|method| method.name == name).unwrap().role;
        assert_eq!(of("debug-advance-clock"), Role::Admin);
    }

    #[test]
    fn a_name_as_long_as_a_line_is_not_sent_back_whole() {
        let error = methods::dispatcher().unknown(&"x".repeat(1 << 20));
        assert!(error.message.len() < 100);
    }
}
