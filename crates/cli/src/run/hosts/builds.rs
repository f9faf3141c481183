//! Build ids of the program and of the Multigrain library it would be run with: all hosts must have the same.

use super::super::elf;
use super::messages::Built;
use object::read::{Object, ReadCache};
use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The library's name, to which a version may be added.
const LIBRARY: &str = "libmultigrain.so";

/// What loaders say of a library that they do not find: GNU's, and musl's.
const MISSING: [&str; 2] = ["error while loading shared libraries", "Error loading shared library"];

const NO_PROC: &str = "/proc/self/exe is missing: mount /proc (mount -t proc proc /proc)";

/// Which build this program is.
///
/// # Errors
/// It cannot be read.
pub(crate) fn own() -> io::Result<String> {
    let lacks_proc = |error: io::Error| match error.kind() == io::ErrorKind::NotFound {
        true => io::Error::new(error.kind(), NO_PROC),
        false => error,
    };
    of(Path::new("/proc/self/exe")).map_err(lacks_proc)
}

/// The program, and the library it would be run with in this environment, if it is linked with it.
///
/// # Errors
/// A file cannot be read.
pub(super) fn of_program(path: &Path, variables: &[(String, String)]) -> io::Result<Vec<Built>> {
    let built = |what: &str, path: &Path| -> io::Result<Built> {
        let (what, build) = (what.to_owned(), of(path)?);
        Ok(Built { what, path: path.display().to_string(), build })
    };
    let mut files = vec![built("program", path)?];
    if let Some(library) = library_of(path, variables)? {
        files.push(built("library", &library)?);
    }
    Ok(files)
}

/// The first file that is not the same on two hosts, each named with its host.
pub(super) fn difference(hosts: &[(&str, &[Built])]) -> Option<String> {
    let ((first, found), others) = hosts.split_first()?;
    others.iter().find_map(|(other, of_other)| {
        let alike = |one: &Built, two: &Built| one.what == two.what && one.build == two.build;
        let differ = |(one, two): &(&Built, &Built)| !alike(one, two);
        if let Some((one, two)) = found.iter().zip(*of_other).find(differ) {
            return Some(format!(
                "the {} {} on {other} is another than {} on {first} ({} and {}); put the same on \
                 all hosts",
                two.what, two.path, one.path, two.build, one.build
            ));
        }
        let (more, less) = (found.len(), of_other.len());
        let (with, without) = if more > less { (first, other) } else { (other, first) };
        (more != less).then(|| {
            format!("the program finds {LIBRARY} on {with} and not on {without}; install it there")
        })
    })
}

/// The linker's build id, or a number made of the whole file if it has none.
fn of(path: &Path) -> io::Result<String> {
    let cache = ReadCache::new(File::open(path)?);
    let parsed = object::File::parse(&cache);
    if let Some(id) =
        parsed.ok().and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec))
    {
        let hex = |text: String, byte: &u8| {
            let mut text = text;
            let _ = write!(text, "{byte:02x}");
            text
        };
        return Ok(format!("build {}", id.iter().fold(String::new(), hex)));
    }
    let (mut file, mut hasher) = (File::open(path)?, DefaultHasher::new());
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(format!("contents {:016x}", hasher.finish())),
            count => hasher.write(&piece[..count]),
        }
    }
}

/// The library that the program's own loader finds for it; none for a program that is linked without it.
///
/// # Errors
/// The loader cannot be started: no process or descriptor is left here; or it lacks a library.
fn library_of(program: &Path, variables: &[(String, String)]) -> io::Result<Option<PathBuf>> {
    let listed = elf::listed_libraries(program, variables).map_err(|error| {
        io::Error::new(error.kind(), format!("its loader cannot be started: {error}"))
    })?;
    // It finds none of the others then.
    let missing = listed.as_ref().and_then(|output| elf::refusal(program, output));
    if let Some(why) = missing.filter(|why| MISSING.iter().any(|words| why.contains(words))) {
        return Err(io::Error::other(format!("{why}; {}", elf::LOAD_ADVICE)));
    }
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    Ok(listed.lines().find_map(|line| {
        let (name, place) = line.trim().split_once(" => ")?;
        let (path, _) = place.rsplit_once(" (")?;
        let version = name.strip_prefix(LIBRARY)?;
        (version.is_empty() || version.starts_with('.')).then(|| PathBuf::from(path))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(builds: &[(&str, &str)]) -> Vec<Built> {
        let built = |&(what, build): &(&str, &str)| Built {
            what: what.to_owned(),
            path: format!("/x/{what}"),
            build: build.to_owned(),
        };
        builds.iter().map(built).collect()
    }

    #[test]
    fn what_differs_is_named_with_its_host() {
        let whole = found(&[("program", "1"), ("library", "2")]);
        let newer = found(&[("program", "1"), ("library", "3")]);
        let bare = found(&[("program", "1")]);
        assert_eq!(difference(&[("a", &whole), ("b", &whole)]), None);
        let line = difference(&[("a", &whole), ("b", &whole), ("c", &newer)]).unwrap();
        assert!(line.starts_with("the library /x/library on c is another than"), "{line}");
        let line = difference(&[("a", &bare), ("b", &whole)]).unwrap();
        assert!(line.contains("on b and not on a"), "{line}");
    }

    #[test]
    fn a_file_has_one_build_and_another_has_another() {
        let exe = std::env::current_exe().unwrap();
        let (own, shell) = (of(&exe).unwrap(), of(Path::new("/bin/sh")).unwrap());
        assert_eq!(own, of(&exe).unwrap());
        assert_ne!(own, shell);
        let text = of(Path::new("/etc/passwd")).unwrap();
        assert!(text.starts_with("contents "), "{text}");
        assert!(elf::loader_of(&exe).unwrap().is_absolute());
        assert_eq!(library_of(&exe, &[]).unwrap(), None, "it is linked statically");
        assert!(of(Path::new("/no/such")).is_err());
    }
}
