//! Finds the installed DPDK with pkg-config, binds what `wrapper.h` declares and the list below
//! allows, and compiles `shim.c`, which gives a symbol to what DPDK defines inline.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What we call. Everything else in DPDK's headers stays out of the bindings.
const FUNCTIONS: &[&str] = &[
    "shim_.*",
    "rte_eal_(init|cleanup|has_hugepages|get_runtime_dir|alarm_set)",
    "rte_version",
    "rte_strerror",
    "rte_openlog_stream",
    "rte_log_(set|get)_global_level",
    "rte_thread_(register|unregister)",
    "rte_socket_id",
    "rte_pktmbuf_pool_create",
    "rte_pktmbuf_free_bulk",
    "rte_mempool_(free|lookup|avail_count|in_use_count)",
    "rte_eth_dev_(get_port_by_name|get_name_by_port|count_avail|info_get|configure|adjust_nb_rx_tx_desc)",
    "rte_eth_dev_(start|stop|close|set_mtu|get_mtu|socket_id|rss_reta_query|fw_version_get)",
    "rte_eth_(rx|tx)_queue_setup",
    "rte_eth_find_next",
    "rte_eth_macaddr_get",
    "rte_eth_promiscuous_(enable|get)",
    "rte_eth_stats_get",
    "rte_ring_(create|free)",
    "rte_eth_from_rings",
    "rte_hash_(create|free|reset|count|add_key_data|del_key|lookup_data|lookup_bulk_data)",
];

/// Structs of which only pointers are handed about, and those whose layout bindgen cannot express
/// (packed, or overaligned unions) and nobody needs.
const OPAQUE: &[&str] = &[
    "rte_mempool",
    "rte_ring",
    "rte_hash",
    "rte_device",
    "rte_flow.*",
    "rte_eth_fdir.*",
    "rte_eth_rxseg.*",
    "rte_eth_vmdq.*",
    "rte_eth_dcb.*",
    "rte_eth_switch_info",
    "rte_mbuf_.*",
    "_IO_FILE",
];

fn main() {
    for file in ["build.rs", "wrapper.h", "shim.c"] {
        println!("cargo::rerun-if-changed={file}");
    }
    for name in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "LIBCLANG_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let version = pkg_config(&["--modversion"]);
    let cflags = pkg_config(&["--cflags"]);
    let cflags: Vec<&str> = cflags.split_whitespace().collect();

    let mut shim = cc::Build::new();
    shim.file("shim.c").warnings(true).extra_warnings(true).opt_level(3);
    // DPDK's own headers are not held to our warnings.
    for flag in &cflags {
        match flag.strip_prefix("-I") {
            Some(folder) => shim.flag("-isystem").flag(folder),
            None => shim.flag(flag),
        };
    }
    shim.compile("dpdk_shim");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bind(&cflags, &out.join("bindings.rs"));
    link(&version);
}

fn bind(cflags: &[&str], into: &Path) {
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(cflags)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .allowlist_var("SHIM_.*")
        .allowlist_recursively(true)
        // Laid by hand in src/mbuf.rs: bindgen's names for its anonymous unions differ between
        // DPDK's versions.
        .blocklist_type("rte_mbuf")
        .derive_debug(false)
        .derive_copy(true)
        .layout_tests(true)
        .generate_comments(false)
        .prepend_enum_name(false);
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in OPAQUE {
        builder = builder.opaque_type(name);
    }
    builder
        .generate()
        .expect("bindgen could not read DPDK's headers")
        .write_to_file(into)
        .expect("OUT_DIR can be written");
}

/// Links the DPDK libraries by the names that this version has. The linker is run with
/// `--as-needed`, so that only those that are called end up in the binary; EAL opens the drivers
/// itself, from the folder that DPDK was built with. Only the driver whose own API is called
/// (`rte_eth_from_rings`) is linked by name.
fn link(version: &str) {
    let libdir = pkg_config(&["--variable=libdir"]);
    println!("cargo::rustc-link-search=native={libdir}");
    for flag in pkg_config(&["--libs-only-l"]).split_whitespace() {
        if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo::rustc-link-lib=dylib={name}");
        }
    }
    println!("cargo::rustc-link-lib=dylib=rte_net_ring");

    // A link argument does not reach the binary from here; the root package's build script passes
    // these on. A DPDK outside of the loader's own folders must be found at run time too: by an
    // old-style rpath, which holds for the libraries that DPDK's libraries need as well.
    let known = ["/usr/lib", "/lib"].iter().any(|folder| Path::new(&libdir).starts_with(folder));
    let args = if known { String::new() } else { format!("-Wl,--disable-new-dtags,-rpath,{libdir}") };
    println!("cargo::metadata=link_args={args}");
    println!("cargo::metadata=version={version}");
}

/// pkg-config's answer for libdpdk. Asked by hand: the crate of that name drops
/// `-include rte_config.h` and `-march`, without which DPDK's inline functions do not compile.
fn pkg_config(args: &[&str]) -> String {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = match Command::new(&program).args(args).arg("libdpdk").output() {
        Ok(output) => output,
        Err(error) => stop(&format!("{program} could not be run ({error})")),
    };
    if !output.status.success() {
        stop(&format!("{program} does not know libdpdk: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn stop(seen: &str) -> ! {
    eprintln!(
        "dpdk-sys: {seen}.\n\
         Install DPDK's headers and pkg-config (Debian: apt-get install libdpdk-dev libclang-dev pkg-config), set\n\
         PKG_CONFIG_PATH to the folder of a libdpdk.pc, or build without the daemon: --no-default-features."
    );
    std::process::exit(1)
}
