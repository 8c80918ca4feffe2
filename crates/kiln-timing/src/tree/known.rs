//! Known answers for library functions that have only one implementation in the tree, and therefore
//! cannot be checked against another one. The answers come from Python's hashlib and from OpenSSL.
//! For modes that neither supports, they were composed from single blocks encrypted by OpenSSL.

/// Length of the message in bytes. The message consists of the bytes 0 to 199; the bytes of the key
/// and the IV also count up from 0.
pub(super) const LEN: usize = 200;

/// Each entry holds the algorithm, the operation, the key size in bytes, and the last bytes of the
/// result in hex.
const ANSWERS: [(&str, &str, usize, &str); 27] = [
    ("md5", "digest", 0, "fb7001d34b8e82c9b579be5005d5b0a5"),
    ("sha224", "digest", 0, "ab3e334a37953e18f4f673736dddb64e850bfdf29d5a7ba268c567d9"),
    ("sha384", "digest", 0, "7ea4bb2534c67036f49de7beb5fe8a2478df04ff3fef40a9cd4923999a590e9912df1297217ce1a021aa2fb1013498b8"),
    ("sha3-224", "digest", 0, "8bcd90dbc5379549b5e78a1fbe24ae120d92caef17750461262b1e97"),
    ("sha3-256", "digest", 0, "5f728f63bf5ee48c77f453c0490398fa645b8d4c4e56be9a41cfec344d6ca899"),
    ("sha3-384", "digest", 0, "b13febb1b3c54a7c6b69367f693a1d1f3145709b6ddef23ff15874133ea1fb9cfa48ee7ff4ec9aa987dea641e33ccdf7"),
    ("sha3-512", "digest", 0, "ea5d05f19348dd589793354793a15f37a73b4c0bb4e750b9a00757dfce2f8b65a64191bb9b137de00feef6474cfd47abf7880efbc51614a5715df12cfe0caee3"),
    ("shake128", "digest", 0, "0c4234ca1e31801ae606f8b8d8e0665c66f42a21d601c2681858a92c79ad5d69"),
    ("shake256", "digest", 0, "4ee1ca03272b05d3bfb1e1c79a967f823b9fc5e4bb3987b1ba9e9cb5afb07a5ee3a07fbd457a94364964a841e7f466e5a022e21ab7f673c18ba98cdb1d5aecfa"),
    ("blake2b-512", "digest", 0, "fb3c1f0f56a56f8e316fdf5d853c8c872c39635d083634c3904fc3ac07d1b578e85ff0e480e92d44ade33b62e893ee32343e79ddf6ef292e89b582d312502314"),
    ("hmac(md5)", "digest", 32, "7608704c7e1c4bc687a37e2b009ced2c"),
    ("hmac(sha224)", "digest", 32, "f9c538961c2b778dc662289426ce8237200bf7da8cddb12588d035cc"),
    ("hmac(sha384)", "digest", 32, "4d1310153fc35826e13371158eaf98294a6ae7a2d2f9b19e470665e036bf4a95331efcb64a68661058c0ae517370b369"),
    ("ecb(des)", "encrypt", 8, "62131b61c7ac07a7374f7508d2114ee2"),
    ("ecb(des)", "decrypt", 8, "0976ab88a631b98dc133be308867bcb5"),
    ("ecb(des3_ede)", "encrypt", 24, "7eef4256e15d70bdcf1592925cecc76d"),
    ("ecb(des3_ede)", "decrypt", 24, "72a85a199ea9be2495545b0d4f26df35"),
    ("cfb(aes)", "encrypt", 32, "2dd5e7070dc54ee78ffcbdda8d4afad9"),
    ("cfb(aes)", "decrypt", 32, "b7f2523eb7b6525fa0ccc5607d770223"),
    ("ecb(arc4)", "encrypt", 16, "0a8bbc26b5f913996e7be92a26c3f316"),
    ("ecb(arc4)", "decrypt", 16, "0a8bbc26b5f913996e7be92a26c3f316"),
    ("cts(cbc(aes))", "encrypt", 32, "357191ef7a47232060d1a6c133b2a3b1"),
    ("cts(cbc(aes))", "decrypt", 32, "718a26f92dcaca656b630b954094a803"),
    ("xctr(aes)", "encrypt", 32, "9a63be6f6c9f4e00a85a7080c9ae59b4"),
    ("xctr(aes)", "decrypt", 32, "9a63be6f6c9f4e00a85a7080c9ae59b4"),
    ("xcbc(aes)", "digest", 16, "f4abc3ce95c7188eae806ebf19ae7821"),
    ("cbcmac(aes)", "digest", 32, "f5e570c8c61caafda53bc28a17e621aa"),
];

/// Returns the key size in bytes and the last bytes of the result for an algorithm and operation.
pub(super) fn answer(alg: &str, op: &str) -> Option<(usize, Vec<u8>)> {
    let (_, _, key, hex) = ANSWERS.iter().find(|a| (a.0, a.1) == (alg, op))?;
    let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16);
    let bytes = (0..hex.len()).step_by(2).map(byte);
    Some((*key, bytes.collect::<Result<_, _>>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bytes() {
        for (alg, op, key, hex) in ANSWERS {
            let (size, bytes) = answer(alg, op).unwrap();
            assert_eq!((size, bytes.len()), (key, hex.len() / 2), "{alg}");
        }
        assert_eq!(answer("sha256", "digest"), None);
    }
}
