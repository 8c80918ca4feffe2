use kiln_linux::fidelity::{emulated::Emulated, question};
fn main() {
    let p = std::env::args().nth(1).unwrap();
    let mut e = Emulated::boot(&p).unwrap();
    println!("{}", e.right());
    for q in question::all() {
        if q.concerns(&p) {
            println!(
                "{} {} | {} | {:?}",
                q.number,
                q.text,
                q.program(),
                e.answer(&q)
            );
        }
    }
}
