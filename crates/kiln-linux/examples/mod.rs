//! x
use std::path::Path; use std::sync::atomic::AtomicBool;
fn main(){ let c=kiln_kbuild::Compiler::from_env().unwrap(); let m=kiln_linux::module::for_headers(Path::new(&std::env::args().nth(1).unwrap()),&c,&AtomicBool::new(false),&|s| eprintln!("{s}")).unwrap(); println!("{:?}",m); }
