//! The interface in other languages than C, as their programs meet it: C++ through `multigrain.hpp`,
//! Fortran through the module of `multigrain.f90`, Python through ctypes. The programs are in `tests/cpp`,
//! `tests/fortran` and `tests/python`; each checks what it does and exits with 0 if all is well.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Setting, TestDir, not_tried, run, run_well, settings, workspace};

fn built() -> PathBuf {
    support::build(&["multigrain-capi", "multigrain-cli"])
}

fn launcher() -> PathBuf {
    built().join("multigrain")
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn must_succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{err}");
}

/// Compiles `sources` to a program in `dir`, linked with the shared library.
fn link(dir: &TestDir, compiler: &str, flags: &[&str], sources: &[PathBuf]) -> PathBuf {
    let program = dir.path().join("program");
    let library = dir.path().join("libmultigrain.so.0");
    if !library.exists() {
        std::os::unix::fs::symlink(built().join("libmultigrain.so"), &library).unwrap();
    }
    let mut command = Command::new(compiler);
    command.args(flags).arg("-I").arg(workspace().join("include")).args(sources);
    command.arg("-o").arg(&program).arg("-L").arg(built()).arg("-lmultigrain");
    must_succeed(command.arg(format!("-Wl,-rpath,{}", dir.path().display())));
    program
}

fn cpp(dir: &TestDir, name: &str, standard: &str) -> PathBuf {
    let strict =
        ["-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"];
    let flags = [&strict[..], &["-pedantic-errors", standard]].concat();
    link(dir, "c++", &flags, &[source(&format!("cpp/{name}.cpp"))])
}

fn run_cpp_in_every_way(name: &str, nodes: &[u32]) {
    let dir = TestDir::new();
    let program = cpp(&dir, name, "-std=c++17");
    for setting in settings(nodes, &["auto", "mprotect"]) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn containers_of_the_standard_library_live_in_shared_memory() {
    run_cpp_in_every_way("containers", &[1, 2, 4]);
}

#[test]
fn guards_of_the_standard_library_take_locks_of_the_job() {
    run_cpp_in_every_way("synchronization", &[2, 3]);
}

#[test]
fn cpp_threads_take_typed_arguments_to_any_node() {
    run_cpp_in_every_way("threads", &[1, 3]);
}

#[test]
fn a_race_of_a_cpp_program_names_its_own_function_and_not_that_of_a_library() {
    let dir = TestDir::new();
    let program = cpp(&dir, "unlocked", "-std=c++17");
    let options = &["--check-races=all"];
    let setting = Setting { consistency: "lazy-release", options, ..Setting::nodes(2) };
    let ended = run(&launcher(), &setting, &program, &[]);
    assert_eq!(ended.code, Some(66), "{ended:?}");
    let place = "made by node 0 in grid::Table::Table(unsigned long), unlocked.cpp:";
    assert_eq!(ended.err.matches(place).count(), 2, "{ended:?}");
}

#[test]
fn an_exception_that_leaves_a_function_which_the_interface_calls_reaches_its_caller() {
    run_cpp_in_every_way("callbacks", &[1, 3]);
}

#[test]
fn the_cpp_header_is_right_under_later_standards_and_release_consistency() {
    for name in ["containers", "synchronization", "threads"] {
        let dir = TestDir::new();
        let program = cpp(&dir, name, "-std=c++20");
        for consistency in ["eager-release", "lazy-release", "auto"] {
            let setting = Setting { consistency, ..Setting::nodes(2) };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn an_exception_that_leaves_a_thread_ends_the_job_with_its_text() {
    let dir = TestDir::new();
    let program = cpp(&dir, "threads", "-std=c++17");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &["throw"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("as told"), "{ended:?}");
}

#[test]
fn what_a_cpp_closure_captures_is_refused_by_the_compiler() {
    let dir = TestDir::new();
    let captures = dir.path().join("captures.cpp");
    let text = "#include <multigrain.hpp>\n\
        int main() { int own = 1; mg::thread(mg::any_node, [own] { (void)own; }).join(); }\n";
    std::fs::write(&captures, text).unwrap();
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-fsyntax-only", "-I"]).arg(workspace().join("include"));
    let output = command.arg(&captures).stdin(Stdio::null()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(err.contains("what a closure captures stays on this node"), "{err}");
}

/// Programs in Fortran are tested where there is a compiler; continuous integration installs one.
fn fortran(dir: &TestDir, name: &str) -> Option<PathBuf> {
    let there = Command::new("gfortran").arg("--version").output().is_ok();
    if !there {
        not_tried("there is no gfortran");
        return None;
    }
    let modules = format!("-J{}", dir.path().display());
    let flags = ["-std=f2018", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", &modules];
    let sources =
        [workspace().join("include/multigrain.f90"), source(&format!("fortran/{name}.f90"))];
    Some(link(dir, "gfortran", &flags, &sources))
}

#[test]
fn a_fortran_program_shares_arrays_and_starts_threads() {
    let dir = TestDir::new();
    let Some(program) = fortran(&dir, "everything") else { return };
    for setting in settings(&[1, 2, 3], &["auto", "mprotect"]) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn a_fortran_program_waits_in_time_locks_addresses_and_makes_system_calls() {
    let dir = TestDir::new();
    let Some(program) = fortran(&dir, "waits") else { return };
    for setting in settings(&[1, 3], &["auto", "mprotect"]) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn the_fortran_module_has_every_function_but_those_it_names() {
    let module = std::fs::read_to_string(workspace().join("include/multigrain.f90")).unwrap();
    let (head, body) = module.split_once("module multigrain_c").unwrap();
    let library = built().join("libmultigrain.so");
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    let exported = String::from_utf8(nm.stdout).unwrap();
    let names = exported.split_whitespace().filter(|word| word.starts_with("mg_"));
    let missing: Vec<_> = names
        .filter(|name| !body.contains(&format!("name=\"{name}\"")))
        .filter(|name| !head.replace(',', " ").split_whitespace().any(|word| word == *name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} are neither there nor named as missing");
}

#[test]
fn the_fortran_module_names_functions_of_the_library_alone() {
    let module = std::fs::read_to_string(workspace().join("include/multigrain.f90")).unwrap();
    let named =
        module.split("bind(c, name=\"mg_").skip(1).map(|rest| rest.split('"').next().unwrap());
    let library = built().join("libmultigrain.so");
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    let exported = String::from_utf8(nm.stdout).unwrap();
    let missing: Vec<_> =
        named.clone().filter(|name| !exported.contains(&format!(" T mg_{name}\n"))).collect();
    assert!(missing.is_empty(), "{missing:?} are not in the library");
    assert!(named.count() > 30);
}

#[test]
fn the_constants_of_the_fortran_module_are_those_of_the_header() {
    let dir = TestDir::new();
    let module = std::fs::read_to_string(workspace().join("include/multigrain.f90")).unwrap();
    let constants: Vec<(&str, &str)> = module
        .lines()
        .filter_map(|line| line.trim().split_once("parameter :: "))
        .filter_map(|(_, constant)| constant.split('!').next()?.split_once(" = "))
        .collect();
    assert!(constants.len() > 15, "{constants:?}");
    let mut program = "#include <multigrain.h>\n".to_owned();
    for (name, value) in constants {
        let value = value.trim();
        program +=
            &format!("_Static_assert(({name}) == ({value}), \"{name} is {value} in Fortran\");\n");
    }
    let source = dir.path().join("constants.c");
    std::fs::write(&source, program).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg("-fsyntax-only").arg("-I").arg(workspace().join("include")).arg(&source);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn threads_of_openmp_share_memory_with_other_nodes() {
    let dir = TestDir::new();
    let flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp"];
    let program = link(&dir, "cc", &flags, &[source("c/openmp.c")]);
    for setting in settings(&[1, 3], &["uffd", "mprotect"]) {
        for consistency in ["sequential", "auto"] {
            run_well(&launcher(), &Setting { consistency, ..setting.clone() }, &program, &[]);
        }
    }
}

#[test]
fn a_python_program_shares_numbers() {
    if Command::new("python3").arg("--version").output().is_err() {
        return not_tried("there is no python3");
    }
    let program = source("python/histogram.py");
    let library = built().join("libmultigrain.so");
    for setting in settings(&[1, 3], &["uffd", "mprotect"]) {
        let arguments = [program.to_str().unwrap(), library.to_str().unwrap()];
        run_well(&launcher(), &setting, Path::new("python3"), &arguments);
    }
}
