//! Parses RSA and ECDSA keys as drivers encode them, and checks that their sizes are supported.

use super::der::Der;
use crate::wire::algo::akcipher as algo;
use crate::wire::{session, Status};
use crate::Limits;

/// Minimum size of an RSA modulus in bits.
const LEAST_MODULUS: usize = 512;

/// How an RSA message is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// No padding. The message is a number that is as long as the modulus.
    Raw,
    /// PKCS #1 v1.5. With `Some`, a signature contains the `DigestInfo` for this digest algorithm.
    /// With `None`, a signature contains the data unchanged.
    Pkcs1(Option<Hash>),
}

/// Digest algorithms that signatures may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// The NIST curves that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P192,
    P224,
    P256,
    P384,
    P521,
}

impl Curve {
    /// Returns the size of a coordinate in bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Curve::P192 => 24,
            Curve::P224 => 28,
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }
}

/// An algorithm and its parameters, as specified when a session is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Rsa(Padding),
    Ecdsa(Curve),
}

/// The numbers that make up an RSA key, as big-endian bytes.
pub(super) struct Rsa<'a> {
    pub n: &'a [u8],
    pub e: &'a [u8],
    pub private: Option<Private<'a>>,
}

/// The private numbers of an RSA key.
pub(super) struct Private<'a> {
    pub d: &'a [u8],
    /// p, q, d mod p-1, d mod q-1, and 1/q mod p. `None` if any of these is 0, because some
    /// encoders write zeros instead of computing the numbers.
    pub crt: Option<[&'a [u8]; 5]>,
}

/// An EC key: the curve, and either or both of the private key and the public key.
pub(super) struct Ec<'a> {
    pub curve: Curve,
    /// The private key as a big-endian number.
    pub private: Option<&'a [u8]>,
    /// The public key as a point in the SEC 1 encoding.
    pub public: Option<&'a [u8]>,
}

/// The contents of an encoded key.
pub(super) enum Parts<'a> {
    Rsa(Rsa<'a>),
    Ec(Ec<'a>),
}

impl Scheme {
    pub(super) fn new(create: &session::Akcipher) -> Result<Scheme, Status> {
        let [para, hash] = create.para;
        match create.algo {
            algo::RSA => Ok(Scheme::Rsa(match para {
                algo::RAW_PADDING => Padding::Raw,
                algo::PKCS1_PADDING => Padding::Pkcs1(match hash {
                    algo::RSA_NO_HASH => None,
                    algo::RSA_MD5 => Some(Hash::Md5),
                    algo::RSA_SHA1 => Some(Hash::Sha1),
                    algo::RSA_SHA224 => Some(Hash::Sha224),
                    algo::RSA_SHA256 => Some(Hash::Sha256),
                    algo::RSA_SHA384 => Some(Hash::Sha384),
                    algo::RSA_SHA512 => Some(Hash::Sha512),
                    _ => return Err(Status::NotSupp),
                }),
                _ => return Err(Status::NotSupp),
            })),
            algo::ECDSA | algo::ECDSA_LINUX => Ok(Scheme::Ecdsa(match para {
                algo::P192 => Curve::P192,
                algo::P224 => Curve::P224,
                algo::P256 => Curve::P256,
                algo::P384 => Curve::P384,
                algo::P521 => Curve::P521,
                _ => return Err(Status::NotSupp),
            })),
            _ => Err(Status::NotSupp),
        }
    }
}

impl<'a> Parts<'a> {
    /// Parses an encoded key (section 5.9.7.2.1.5). RSA keys are encoded according to PKCS #1, and
    /// ECDSA keys according to RFC 5915. An ECDSA public key may also be a bare point.
    pub(super) fn parse(
        scheme: Scheme,
        private: bool,
        key: &'a [u8],
        limits: &Limits,
    ) -> Result<Parts<'a>, Status> {
        match scheme {
            Scheme::Rsa(_) => Rsa::parse(private, key, limits).map(Parts::Rsa),
            Scheme::Ecdsa(curve) => Ec::parse(curve, private, key).map(Parts::Ec),
        }
    }
}

impl<'a> Rsa<'a> {
    fn parse(private: bool, key: &'a [u8], limits: &Limits) -> Result<Rsa<'a>, Status> {
        let mut der = Der::sequence(key)?;
        if private && !der.number()?.is_empty() {
            // The key has more than two primes.
            return Err(Status::NotSupp);
        }
        let (n, e) = (der.number()?, der.number()?);
        let private = private.then(|| Private::parse(&mut der)).transpose()?;
        let bits = 8 * n.len();
        let odd = |number: &[u8]| number.last().is_some_and(|b| b & 1 == 1);
        let sound = (LEAST_MODULUS..=limits.max_modulus).contains(&bits)
            && odd(n)
            && odd(e)
            && e != [1]
            && e.len() <= n.len()
            && private.as_ref().is_none_or(|p| p.fits(n.len()));
        match sound && der.is_empty() {
            true => Ok(Rsa { n, e, private }),
            false => Err(Status::Err),
        }
    }
}

impl<'a> Private<'a> {
    fn parse(der: &mut Der<'a>) -> Result<Private<'a>, Status> {
        let d = der.number()?;
        let mut crt = [&[][..]; 5];
        for number in &mut crt {
            *number = der.number()?;
        }
        let crt = crt.iter().all(|n| !n.is_empty()).then_some(crt);
        Ok(Private { d, crt })
    }

    fn fits(&self, modulus: usize) -> bool {
        let crt = self.crt.into_iter().flatten();
        !self.d.is_empty() && self.d.len() <= modulus && crt.into_iter().all(|n| n.len() <= modulus)
    }
}

impl<'a> Ec<'a> {
    fn parse(curve: Curve, private: bool, key: &'a [u8]) -> Result<Ec<'a>, Status> {
        let point = |point: &'a [u8]| match (point.first(), point.len()) {
            (Some(4), len) if len == 1 + 2 * curve.bytes() => Ok(point),
            (Some(2 | 3), len) if len == 1 + curve.bytes() => Ok(point),
            _ => Err(Status::Err),
        };
        if !private {
            return Ok(Ec {
                curve,
                private: None,
                public: Some(point(key)?),
            });
        }
        let mut der = Der::sequence(key)?;
        let (version, number) = (der.number()?, der.octets()?);
        if version != [1] || number.is_empty() || number.len() > curve.bytes() {
            return Err(Status::Err);
        }
        // Ignore the curve in the key, because the session specifies the curve.
        let public = der.tagged_bits()?.map(point).transpose()?;
        Ok(Ec {
            curve,
            private: Some(number),
            public,
        })
    }
}
