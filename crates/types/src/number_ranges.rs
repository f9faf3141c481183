//! A list of numbers as text: consecutive ones as a range.

/// `3`, `0 and 2`, `0 to 4, 7 and 9`; the numbers ascend.
#[must_use]
pub fn in_runs(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for (first, last) in runs {
        match last - first {
            0 => parts.push(first.to_string()),
            1 => parts.extend([first.to_string(), last.to_string()]),
            _ => parts.push(format!("{first} to {last}")),
        }
    }
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_numbers_are_one_range() {
        assert_eq!(in_runs(&[]), "");
        assert_eq!(in_runs(&[3]), "3");
        assert_eq!(in_runs(&[0, 2]), "0 and 2");
        assert_eq!(in_runs(&[0, 1]), "0 and 1");
        assert_eq!(in_runs(&[0, 1, 2, 3, 7, 9]), "0 to 3, 7 and 9");
    }
}
