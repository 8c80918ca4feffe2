//! Whether every implementation of every algorithm does what its standard says and what its
//! other tiers do. A new implementation is tested by being listed (`kernel/ciphers/list.c`); a new
//! algorithm needs a file of vectors besides.

#[path = "ciphers/agree.rs"]
mod agree;
#[path = "ciphers/buffer.rs"]
mod buffer;
#[path = "ciphers/hash.rs"]
mod hash;
#[path = "ciphers/refuse.rs"]
mod refuse;
#[path = "ciphers/standard.rs"]
mod standard;
