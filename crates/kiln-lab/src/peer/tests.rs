//! The peers of this machine, and such as nobody should have.

use super::*;

#[test]
fn words() {
    let parse =
        |words: &[&str]| Wanted::parse(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
    assert_eq!(parse(&[]), Ok(Wanted::Auto));
    assert_eq!(parse(&["none"]), Ok(Wanted::None));
    assert!(parse(&["openssl"]).unwrap().names("openssl"));
    assert!(!Wanted::Auto.names("openssl"));
    let fault = |words| parse(words).unwrap_err().to_string();
    assert!(fault(&["opensll"]).contains("did you mean 'openssl'"));
    assert!(fault(&["none", "openssl"]).contains("stands alone"));
}
