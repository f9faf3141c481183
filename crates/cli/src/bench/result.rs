//! The `result` line of an application: what it counted in its measured section (apps/README.md).

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// The numbers of the line, by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultLine(BTreeMap<String, f64>);

impl ResultLine {
    /// Finds it in what the application printed. An answer that was found wrong is an error.
    pub(crate) fn find(output: &str) -> Result<Self> {
        let line = output.lines().find_map(|line| line.strip_prefix("result "));
        let line = line.context("it printed no result line")?;
        let pairs = || line.split(' ').filter_map(|pair| pair.split_once('='));
        ensure!(!pairs().any(|pair| pair == ("check", "failed")), "its result was wrong");
        let number = |(key, value): (&str, &str)| Some((key.to_owned(), value.parse().ok()?));
        Ok(Self(pairs().filter_map(number).collect()))
    }

    /// One of them.
    pub(crate) fn number(&self, key: &str) -> Result<f64> {
        self.0.get(key).copied().with_context(|| format!("its result has no {key}"))
    }

    /// All of them.
    pub(super) fn numbers(&self) -> &BTreeMap<String, f64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_read_by_its_keys() {
        let text = "time: 3 ms\nresult app=lu ms=3.50 check=ok messages=1456 build=mg\n";
        let line = ResultLine::find(text).unwrap();
        assert_eq!((line.number("ms").unwrap(), line.number("messages").unwrap()), (3.5, 1456.0));
        assert!(line.number("bytes").is_err() && line.numbers().len() == 2);
        assert!(ResultLine::find("").is_err());
        assert!(ResultLine::find("result ms=1 check=failed").is_err());
    }
}
