//! Commands as a person types them: they are shown to be copied.

/// The words of a command, each quoted where a POSIX shell would take it apart.
#[must_use]
pub fn shell_command(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
    quoted.join(" ")
}

/// One word, quoted if a POSIX shell would take it apart.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+./:,@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(miri))] // Miri starts no processes.
    #[test]
    fn a_shell_gives_the_words_back() {
        let words = [
            "./prog", "", "a b", "it's", "$HOME", "*", "x=1", "ä", "a\nb",
        ];
        let words: Vec<String> = words.map(str::to_owned).into();
        let script = format!("printf '%s\\0' {}", shell_command(&words));
        let shell = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        let given = String::from_utf8(shell.stdout).unwrap();
        let given: Vec<&str> = given.strip_suffix('\0').unwrap().split('\0').collect();
        assert_eq!(given, words);
    }
}
