//! On which cores the daemon's threads may run.

use crate::daemon::{Place, wait_for};
use crate::told::forwards;

#[test]
fn a_worker_has_its_core_for_itself() {
    let allowed = flowgate::io::affinity::allowed_cpus().expect("the kernel tells");
    let [control, .., worker] = allowed[..] else {
        println!("left out: there is one core alone");
        return;
    };
    let node = forwards()
        .replace("\ncores = [0]", &format!("\ncores = [{worker}]"))
        .replace("control_cores = [0, 1]", &format!("control_cores = [{control}]"));
    let place = Place::new(&node);
    let daemon = place.start(&mut place.command());
    place.wait_for_socket();
    let is_there = |name: &str| daemon.threads().iter().any(|(its, _)| its == name);
    // DPDK's own thread would have any core but the first.
    for name in ["worker-0", "eal-intr-thread", "log"] {
        wait_for(name, || is_there(name));
    }
    let of_worker = vec![usize::from(worker)];
    wait_for("every thread to be where it is to be", || {
        let threads = daemon.threads();
        threads.iter().all(|(name, thread)| match name.as_str() {
            "worker-0" => thread.cpus() == of_worker,
            _ => !thread.cpus().contains(&of_worker[0]),
        })
    });
}
