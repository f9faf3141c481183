//! The built libraries and their header: what they export, and how programs are linked with them.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use support::c::{built, compile, compiler, include, launcher, must_succeed, source};
use support::{Setting, TestDir, run, run_well};

/// Names of the functions `multigrain.h` declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(include().join("multigrain.h")).unwrap();
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let name = |text: &str| -> String {
        let letters = text.chars().rev().take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
        letters.collect::<Vec<_>>().into_iter().rev().collect()
    };
    let before_parentheses = code.split('(').map(name);
    before_parentheses.filter(|name| name.starts_with("mg_")).collect()
}

/// Functions of the C library in whose place the program finds the library's.
const INTERPOSED: [&str; 25] = [
    "__sysv_signal",
    "close",
    "close_range",
    "closefrom",
    "dup2",
    "dup3",
    "mlockall",
    "mmap",
    "mmap64",
    "mprotect",
    "mremap",
    "munmap",
    "pkey_mprotect",
    "pthread_sigmask",
    "sigaction",
    "sigblock",
    "sighold",
    "sigignore",
    "signal",
    "sigprocmask",
    "sigset",
    "sigsetmask",
    "sigsuspend",
    "ssignal",
    "timer_create",
];

#[test]
fn the_library_exports_the_functions_of_the_header_and_what_it_interposes() {
    let library = built().join("libmultigrain.so");
    let nm = must_succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let exported: BTreeSet<String> =
        nm.lines().filter_map(|line| Some(line.split_whitespace().last()?.to_owned())).collect();
    assert!(declared().len() > 30, "{:?}", declared());
    let promised = declared().into_iter().chain(INTERPOSED.map(str::to_owned)).collect();
    assert_eq!(exported, promised);
}

#[test]
fn the_library_has_the_name_of_its_interface() {
    let library = built().join("libmultigrain.so");
    let head = must_succeed(Command::new("readelf").arg("-d").arg(&library));
    assert!(head.contains("soname: [libmultigrain.so.0]"), "{head}");
}

#[test]
fn the_header_is_c11_and_cpp_and_every_function_can_be_linked() {
    let dir = TestDir::new();
    let every: Vec<String> =
        declared().iter().map(|name| format!("(any_function){name},")).collect();
    let template = fs::read_to_string(source("header.c")).unwrap();
    let code = template.replace("EVERY_FUNCTION", &every.join("\n"));
    let c = dir.path().join("header.c");
    let cpp = dir.path().join("header.cpp");
    fs::write(&c, &code).unwrap();
    fs::write(&cpp, &code).unwrap();
    let strict = ["-pedantic-errors", "-Wconversion", "-Wshadow", "-O1"];
    let object = dir.path().join("header.o");
    for (compiler_name, standard, file) in
        [("cc", "-std=c11", &c), ("c++", "-std=c++11", &cpp), ("c++", "-std=c++20", &cpp)]
    {
        let mut command = compiler(compiler_name, &strict);
        must_succeed(command.arg(standard).arg("-c").arg(file).arg("-o").arg(&object));
        let mut link = compiler(compiler_name, &[]);
        link.arg(&object).arg("-L").arg(built()).arg("-lmultigrain");
        must_succeed(link.arg("-o").arg(dir.path().join("header")));
    }
}

#[test]
fn the_static_library_makes_programs_that_need_no_other() {
    let dir = TestDir::new();
    let program = dir.path().join("static");
    let mut command = compiler("cc", &["-std=c11", "-D_GNU_SOURCE"]);
    command.arg(source("outside.c")).arg(built().join("libmultigrain.a"));
    command.args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"]);
    must_succeed(command.arg("-o").arg(&program));
    let needed = must_succeed(Command::new("readelf").arg("-d").arg(&program));
    assert!(!needed.contains("libmultigrain"), "{needed}");
    run_well(&launcher(), &Setting::nodes(2), &program, &[]);
}

/// Runs a program without any shared object on two nodes.
fn run_static(name: &str) {
    let dir = TestDir::new();
    let program = compile_static(&dir, name);
    run_well(&launcher(), &Setting { threads: 3, ..Setting::nodes(2) }, &program, &[]);
}

fn compile_static(dir: &TestDir, name: &str) -> PathBuf {
    let program = dir.path().join(name);
    let mut command = compiler("cc", &["-static", "-std=c11", "-D_GNU_SOURCE"]);
    command.arg(source(&format!("{name}.c"))).arg(built().join("libmultigrain.a"));
    command.args(["-lgcc_eh", "-lpthread", "-lm", "-ldl", "-lc"]);
    must_succeed(command.arg("-o").arg(&program));
    let dynamic = must_succeed(Command::new("readelf").arg("-d").arg(&program));
    assert!(dynamic.contains("no dynamic section"), "{dynamic}");
    program
}

#[test]
fn a_program_without_any_shared_object_says_that_it_cannot_load_pmix() {
    let dir = TestDir::new();
    let mut command = Command::new(compile_static(&dir, "threads"));
    let ended = command.env("PMIX_RANK", "0").env("PMIX_NAMESPACE", "job").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(said.contains("is linked with -static and cannot load PMIx"), "{said}");
}

#[test]
fn threads_start_in_programs_without_any_shared_object() {
    run_static("threads");
}

#[test]
fn timers_send_signals_in_programs_without_any_shared_object() {
    run_static("timers");
}

#[test]
fn threads_start_in_libraries_of_the_program() {
    let dir = TestDir::new();
    let program = compile(&dir, "plugin");
    let library = dir.path().join("libplugin.so");
    let mut command = compiler("cc", &["-shared", "-fPIC", "-DPLUGIN"]);
    command.arg(source("plugin.c")).arg("-L").arg(built()).arg("-lmultigrain");
    must_succeed(command.arg("-o").arg(&library));
    run_well(&launcher(), &Setting::nodes(2), &program, &[library.to_str().unwrap()]);
    // That addresses are random was said to be the cause.
    let without = [library.to_str().unwrap(), "missing"];
    let ended = run(&launcher(), &Setting::nodes(2), &program, &without);
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 1), "{ended:?}");
    let start =
        "node 1 cannot start a thread: the library of its function is not loaded there, or ";
    assert!(ended.out.contains(start) && ended.out.contains("/libplugin.so)"), "{ended:?}");
    assert!(!(ended.out + &ended.err).contains("random"));
}

/// Its thread-local storage was too large for what the C library leaves for that: no Python program could load it.
#[test]
fn a_running_program_loads_the_library() {
    let dir = TestDir::new();
    let program = dir.path().join("loaded");
    let mut command = compiler("cc", &[]);
    must_succeed(command.arg(source("loaded.c")).arg("-ldl").arg("-o").arg(&program));
    let library = built().join("libmultigrain.so");
    run_well(&launcher(), &Setting::nodes(2), &program, &[library.to_str().unwrap()]);
}
