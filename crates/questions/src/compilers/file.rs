//! Creates subjects from the user's own source files.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_question::Error;

use super::subject::{Convention, Flags, Judge, Source, Subject};

/// Calling conventions that a user can name for a file. `docs/COMPILERS.md` describes them.
const CONVENTIONS: [&str; 7] = [
    "block",
    "cipher",
    "digest",
    "checksum32",
    "checksum64",
    "transform",
    "openssl",
];
/// Marks the comment in which a file declares its calling convention.
const DECLARED: &str = "kiln-subject:";

/// Creates a subject from `FILE`, `FILE:FUNCTION:CONVENTION` or `FILE:FUNCTION+SETKEY:block`.
pub(super) fn subject(text: &str, include: &[PathBuf]) -> Result<Subject, Error> {
    let mut words = text.splitn(3, ':');
    let file = words.next().unwrap_or_default();
    let (function, convention) = (words.next(), words.next());
    let path = fs::canonicalize(file).map_err(|e| {
        Error::input(format!(
            "cannot read subject '{file}': {e}: name a C file, add --tree DIR for a file of a kernel tree, \
             or name a subject that 'kiln compilers --list' has"
        ))
    })?;
    if path.extension().is_none_or(|end| end != "c") {
        return Err(Error::input(format!(
            "subject '{file}' is not a C file: name a file that ends in .c"
        )));
    }
    let code = fs::read(&path).map_err(|e| {
        Error::input(format!(
            "cannot read subject '{file}': {e}: name a C file you may read"
        ))
    })?;
    let code = String::from_utf8_lossy(&code);
    let (convention, function) = match (convention, function) {
        (Some(convention), Some(function)) => (convention.to_string(), function.to_string()),
        (None, Some(_)) => {
            return Err(Error::input(format!(
                "'{text}' lacks a convention: use FILE:FUNCTION:CONVENTION with one of {}",
                CONVENTIONS.join(", ")
            )))
        }
        _ => declared(&code).ok_or_else(|| {
            Error::input(format!(
                "'{file}' does not say how it is called: FILE:FUNCTION:CONVENTION, or a line '{DECLARED} CONVENTION \
                 FUNCTION' in it; conventions: {}",
                CONVENTIONS.join(", ")
            ))
        })?,
    };
    let convention = find_convention(&convention, &function, file)?;
    let aes = convention.name == "openssl";
    Ok(Subject {
        name: Path::new(file)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        alg: if aes { "cbc(aes)" } else { convention.name }.to_string(),
        key_bits: (convention.key > 0).then_some(convention.key as u32 * 8),
        sources: vec![Source {
            path,
            flags: Flags::Program {
                include: include.to_vec(),
            },
        }],
        convention,
        support: Vec::new(),
        objects: Vec::new(),
        judge: match aes {
            true => Judge::Algorithm {
                alg: "cbc(aes)",
                but: "",
            },
            false => Judge::Majority,
        },
        narrow: true,
        assembly: false,
    })
}

/// Finds a calling convention by name. `function` is the name of a function, or the names of a
/// cipher function and its key setup function joined by `+`.
pub(super) fn find_convention(name: &str, function: &str, file: &str) -> Result<Convention, Error> {
    let is_name =
        |n: &str| !n.is_empty() && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let (function, setkey) = match function.split_once('+') {
        Some((function, setkey)) => (function, Some(setkey)),
        None => (function, None),
    };
    for n in [Some(function), setkey].into_iter().flatten() {
        if !is_name(n) && name != "openssl" {
            return Err(Error::input(format!(
                "'{file}': '{n}' is not a function name: use FILE:FUNCTION:CONVENTION"
            )));
        }
    }
    let mut defines = vec![format!("SUBJECT_FUNCTION={function}")];
    let (name, file, key, iv) = match (name, setkey) {
        ("block", Some(setkey)) => {
            defines.push(format!("SUBJECT_SETKEY={setkey}"));
            ("block", "block.c", 32, 16)
        }
        ("block", None) => {
            return Err(Error::input(format!(
                "'{file}': convention block has two functions: FILE:FUNCTION+SETKEY:block"
            )))
        }
        ("cipher", _) => ("cipher", "cipher.c", 32, 16),
        ("digest", _) => ("digest", "digest.c", 0, 0),
        ("checksum32", _) => {
            defines.push("SUBJECT_RESULT=uint32_t".to_string());
            ("checksum32", "checksum.c", 0, 0)
        }
        ("checksum64", _) => {
            defines.push("SUBJECT_RESULT=uint64_t".to_string());
            ("checksum64", "checksum.c", 0, 0)
        }
        ("transform", _) => ("transform", "transform.c", 0, 0),
        ("openssl", _) => {
            defines = vec![
                "SUBJECT_FUNCTION=AES_encrypt".to_string(),
                "SUBJECT_SETKEY=AES_set_encrypt_key".to_string(),
            ];
            ("openssl", "openssl.c", 32, 16)
        }
        (other, _) => {
            return Err(Error::input(format!(
                "'{file}': unknown convention '{other}': use one of {}",
                CONVENTIONS.join(", ")
            )))
        }
    };
    let function = match name {
        "openssl" => "AES_encrypt",
        _ => function,
    };
    Ok(Convention {
        name,
        file,
        function: function.to_string(),
        defines,
        key,
        iv,
    })
}

/// Returns the convention and the function that a file declares. AES code with OpenSSL's function
/// names needs no declaration.
fn declared(code: &str) -> Option<(String, String)> {
    let line = code
        .lines()
        .find_map(|l| l.split_once(DECLARED).map(|(_, rest)| rest));
    if let Some(rest) = line {
        let mut words = rest.split_whitespace();
        let convention = words.next()?.to_string();
        let function = words.next().unwrap_or_default().to_string();
        return Some((convention, function));
    }
    let has = |name| code.contains(name);
    (has("AES_set_encrypt_key") && has("AES_encrypt"))
        .then(|| ("openssl".to_string(), "AES_encrypt".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_itself_how_it_is_called_or_the_user_does() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sum.c");
        let name = file.display().to_string();
        fs::write(&file, "int x;\n").unwrap();
        let refusal = |text: &str| {
            let e = subject(text, &[]).unwrap_err();
            assert_eq!(e.exit_code(), 2, "{e}");
            e.to_string()
        };
        assert!(refusal(&name).contains("kiln-subject:"));
        assert!(refusal(&format!("{name}:f")).contains("lacks a convention"));
        assert!(refusal(&format!("{name}:f:digset")).contains("checksum64"));
        assert!(refusal(&format!("{name}:f:block")).contains("SETKEY"));
        assert!(refusal(&format!("{name}:f(:digest")).contains("is not a function name"));
        let absent = refusal("/no/such.c");
        assert!(
            absent.contains("cannot read") && absent.contains("--tree DIR"),
            "{absent}"
        );
        let s = subject(&format!("{name}:f:checksum32"), &[]).unwrap();
        assert_eq!(
            (s.name.as_str(), s.convention.file),
            ("sum.c", "checksum.c")
        );
        fs::write(&file, "/* kiln-subject: digest crc */\n").unwrap();
        assert_eq!(subject(&name, &[]).unwrap().convention.function, "crc");
        fs::write(&file, "AES_set_encrypt_key(); AES_encrypt();").unwrap();
        let s = subject(&name, &[]).unwrap();
        assert_eq!((s.convention.name, s.key_bits), ("openssl", Some(256)));
    }
}
