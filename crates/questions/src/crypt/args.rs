//! The arguments of `kiln crypt`, and the function that runs the command.

use std::fs;
use std::io::{stdin, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_kernel::cipher::{Kind, Op};
use kiln_question::algorithm::op_name;
use kiln_question::algorithm::{Drivers, Names};
use kiln_question::{
    print_bytes, replace, Algorithm, Error, Exit, Outcome, Question, RowType, Session,
};
use zeroize::Zeroizing;

use super::cipher::{Cipher, Plan, Row};

/// Encrypt, decrypt or hash a file or stdin with one implementation
///
/// Use this to see an implementation's output for your own input. All data is read first, then
/// processed as one message by a request to Kiln's crypto API. If an error occurs or a tag is
/// wrong, nothing is written.
#[derive(Args)]
#[command(after_long_help = "\
AEAD encryption appends the tag to the ciphertext. AEAD decryption expects
the tag at the end of the data, unless --tag is given. For a hash, the output
is the digest in raw bytes. With --divide, each piece is an entry of the
request's scatterlist; a hash gets one update for each piece.

The key of xts(aes) consists of two AES keys. The key of rfc4106(gcm(aes)) is
an AES key followed by 4 bytes of salt, and its --aad has 8 or 12 bytes. The
IV of ccm(aes) is the first counter block of RFC 3610. The IV of chacha20 is
the number of the first block (4 bytes) followed by the nonce. All users of
the machine can see a key on the command line; --key @FILE prevents this.

Exit status:
  1 if a tag is wrong

Examples:
  iv=00000000000000000000000000000000
  kiln crypt --alg 'xts(aes)' --key @key --iv $iv --in plain --out-file enc
  kiln crypt --alg 'xts(aes)' --key @key --iv $iv --decrypt < enc > again
  kiln crypt --alg 'xts(aes)' --key @key --iv $iv --in plain \\
       --impl xts-aes-aesni --divide 13,51 | sha256sum
  head -c 32 key > aes-key
  kiln crypt --alg 'gcm(aes)' --key @aes-key --iv 000102030405060708090a0b \\
       --aad 2b --in plain --out-file sealed
  kiln crypt --alg sha256 --in plain | xxd -p -c 32")]
pub struct CryptArgs {
    /// Algorithm, by its name in the kernel's crypto API, such as 'xts(aes)'
    #[arg(long, value_name = "ALG", value_parser = Names, hide_possible_values = true)]
    alg: String,
    /// Implementation, by driver name [default: the one with the highest priority that this CPU can
    /// run]
    #[arg(long = "impl", value_name = "NAME", value_parser = Drivers, hide_possible_values = true)]
    imp: Option<String>,
    /// Key in hex, or @FILE to read the key from FILE, in hex or as raw bytes
    #[arg(long, value_name = "HEX|@FILE")]
    key: Option<String>,
    /// IV in hex
    #[arg(long, value_name = "HEX")]
    iv: Option<String>,
    /// Associated data in hex; AEADs only
    #[arg(long, value_name = "HEX")]
    aad: Option<String>,
    /// With --decrypt: tag to check, in hex; AEADs only [default: the end of the data]
    #[arg(long, value_name = "HEX")]
    tag: Option<String>,
    /// Decrypt instead of encrypt
    #[arg(long)]
    decrypt: bool,
    /// Read the data from this file [default: stdin]
    #[arg(long = "in", value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write the output to this file, completely or not at all; may be the input file [default:
    /// stdout]
    #[arg(long, value_name = "FILE")]
    out_file: Option<PathBuf>,
    /// Divide the data into pieces of these lengths in bytes; the list repeats until the data ends
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    divide: Vec<usize>,
}

impl Question for CryptArgs {
    const NAME: &'static str = "crypt";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(140)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let alg: Algorithm = self.alg.parse()?;
        self.check_flags(session)?;
        let key = self.key.as_deref().map(read_key).transpose()?;
        let bytes = |flag, text: &Option<String>| text.as_deref().map(|t| hex(flag, t)).transpose();
        let iv = bytes("--iv", &self.iv)?;
        let aad = bytes("--aad", &self.aad)?;
        let tag = bytes("--tag", &self.tag)?;
        let op = if self.decrypt {
            Op::Decrypt
        } else {
            Op::Encrypt
        };
        let plan = Plan {
            alg,
            imp: self.imp.as_deref(),
            op,
            key: key.as_deref().map(Vec::as_slice),
            iv: iv.as_deref().map(Vec::as_slice),
            aad: aad.as_deref().map_or(&[], Vec::as_slice),
            tag: tag.as_deref().map(Vec::as_slice),
            divide: &self.divide,
        };
        let cipher = Cipher::new(&plan)?;
        let driver = cipher.driver();
        let (data, source) = read(self.input.as_deref())?;
        let pieces = cipher.divide(data.len()).count();
        let result = cipher.crypt(&data, &source)?;
        if session.stopped() {
            return Ok(Exit::Interrupted);
        }
        match &self.out_file {
            Some(path) => replace::write(path, &result)?,
            None => print_bytes(&result)?,
        }
        let row = Row {
            alg: alg.name(),
            imp: driver,
            op: match alg.kind() {
                Kind::Hash => "digest",
                _ => op_name(op),
            },
            bytes: result.len(),
            pieces,
        };
        session.save::<Self, _>(&Outcome {
            rows: vec![row],
            ..Outcome::default()
        })?;
        Ok(Exit::Done)
    }
}

impl CryptArgs {
    /// Rejects flags that would send two outputs to stdout, or binary data to a terminal.
    fn check_flags(&self, session: &Session) -> Result<(), Error> {
        match &self.out_file {
            None if session.global.json => Err(Error::input(
                "--json and the result cannot both go to stdout: add --out-file FILE",
            )),
            None if session.tty => Err(Error::input(
                "the result is binary and stdout a terminal: redirect it, or add --out-file FILE",
            )),
            _ => Ok(()),
        }
    }
}

/// Reads a file or stdin. Returns the data, and the name by which errors refer to them.
fn read(input: Option<&Path>) -> Result<(Zeroizing<Vec<u8>>, String), Error> {
    let mut data = Zeroizing::new(Vec::new());
    let (name, read) = match input {
        Some(path) => (
            format!("'{}'", path.display()),
            fs::File::open(path).and_then(|mut f| f.read_to_end(&mut data)),
        ),
        None => ("stdin".to_string(), stdin().lock().read_to_end(&mut data)),
    };
    read.map_err(|e| Error::input(format!("cannot read {name}: {e}: name a file you may read")))?;
    Ok((data, name))
}

/// Parses a key given in hex, or reads it from a file that contains hex or raw bytes.
fn read_key(text: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    let Some(path) = text.strip_prefix('@') else {
        // The value is printed only if a file has this name, because it may be a key.
        return hex("--key", text).map_err(|e| match Path::new(text).is_file() {
            true => Error::input(format!(
                "--key: '{text}' is a file: to read the key from it, write --key @{text}"
            )),
            false => e,
        });
    };
    let raw = Zeroizing::new(fs::read(path).map_err(|e| {
        Error::input(format!(
            "--key: cannot read '{path}': {e}: name a file you may read"
        ))
    })?);
    match std::str::from_utf8(&raw).map(str::trim) {
        Ok(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            hex(&format!("--key @{path}"), text)
        }
        _ => Ok(raw),
    }
}

/// Parses hex digits. Error messages do not repeat the value, because it may be a key.
fn hex(flag: &str, text: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    let digit = |i: usize, b: u8| {
        (b as char).to_digit(16).map(|d| d as u8).ok_or_else(|| {
            Error::input(format!(
                "{flag}: character {} is not a hex digit: use 0-9 and a-f",
                i + 1
            ))
        })
    };
    let digits = text
        .bytes()
        .enumerate()
        .map(|(i, b)| digit(i, b))
        .collect::<Result<Vec<u8>, _>>()
        .map(Zeroizing::new)?;
    if digits.len() % 2 != 0 {
        return Err(Error::input(format!(
            "{flag}: {} hex digits are not whole bytes: use two digits per byte",
            digits.len()
        )));
    }
    Ok(Zeroizing::new(
        digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits() {
        assert_eq!(*hex("--iv", "00fFa5").unwrap(), [0, 255, 0xa5]);
        assert_eq!(hex("--iv", "").unwrap().len(), 0);
        let fault = |text| hex("--key", text).unwrap_err().to_string();
        assert!(fault("0g").contains("character 2"));
        assert!(fault("001").contains("3 hex digits"));
        assert!(!fault("deadbeef1").contains("deadbeef"));
    }

    #[test]
    fn keys_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        let at = format!("@{}", path.display());
        fs::write(&path, "0011\n").unwrap();
        assert_eq!(*read_key(&at).unwrap(), [0, 0x11]);
        fs::write(&path, [0xff, 1, 2]).unwrap();
        assert_eq!(*read_key(&at).unwrap(), [0xff, 1, 2]);
        assert!(read_key("@/no/such").is_err());
        let fault = |text| read_key(text).unwrap_err().to_string();
        assert!(fault(&at[1..]).ends_with(&format!("write --key {at}")));
        assert!(fault("/no/such").contains("character 1"));
    }
}
