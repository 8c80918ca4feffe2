//! The results of `kiln linux dkms`: rows, findings and notes.

use schemars::JsonSchema;
use serde::Serialize;

/// Algorithm whose known answer is changed as a control.
pub(super) const PLANTED: &str = "rfc4106(gcm(aes))";

/// Mode in which a timer's softirqs interrupt sections without a network.
pub(super) const TIMER: &str = "timer";

/// IPsec packets between two network namespaces of a stock kernel while dm-crypt writes on the same
/// CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    rename = "linux-dkms",
    title = "The installable module",
    extend(
        "x-question" = "Does the module of kiln-crypto-dkms keep IPsec out of cryptd, with every byte right?",
        "x-commands" = ["linux dkms"]
    )
)]
pub struct Row {
    /// Kernel release, as `uname -r` prints it.
    #[schemars(extend("x-role" = "key"))]
    pub kernel: String,
    /// What runs the guest: `kvm`, or `tcg` (software emulation).
    #[schemars(extend("x-role" = "key"))]
    pub accel: String,
    /// `without`: Linux's own drivers; `with`: Kiln's module with `prefer=1`; `unsaved`: the
    /// control, a module that saves neither the registers of interrupted sections nor those of the
    /// program; `cycles`: the module is repeatedly loaded, used and unloaded.
    #[schemars(extend("x-role" = "key"))]
    pub module: &'static str,
    /// `transport`: a process encrypts and a softirq decrypts; `tunnel`: softirqs do both; `timer`:
    /// without a network, a timer's softirqs encrypt and decrypt messages of a packet's size, while
    /// the interrupted task encrypts and decrypts sectors and messages.
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// `gcm`: AES-GCM; `cbc`: AES-CBC with HMAC-SHA-256; `gcm, chacha`: AES-GCM for three of four
    /// messages, ChaCha20-Poly1305 for the others.
    #[schemars(extend("x-role" = "key"))]
    pub cipher: &'static str,
    /// Packets that the sender handed to the kernel; in the mode `timer`, messages that softirqs
    /// processed.
    #[schemars(extend("x-role" = "main"))]
    pub sent: u64,
    /// Packets that were sent but not received.
    #[schemars(extend("x-role" = "main"))]
    pub lost: u64,
    /// Packets that arrived after a packet that had been sent later.
    #[schemars(extend("x-role" = "figure"))]
    pub reordered: u64,
    /// Packets or messages with wrong bytes.
    #[schemars(extend("x-role" = "main"))]
    pub wrong: u64,
    /// Requests that were deferred to cryptd.
    #[schemars(extend("x-role" = "main"))]
    pub cryptd: u64,
    /// FPU sections that Kiln's drivers opened in a softirq that had interrupted another FPU
    /// section.
    #[schemars(extend("x-role" = "figure", "x-heading" = "nested saves"))]
    pub nested_saves: u64,
    /// FPU sections that softirqs interrupted; counted only in the mode `timer`, where several
    /// nested sections may interrupt the same section.
    #[schemars(extend("x-role" = "figure"))]
    pub interrupted: u64,
    /// Number of different instructions at which these sections were interrupted.
    #[schemars(extend("x-role" = "figure"))]
    pub addresses: u64,
    /// Pieces of 64 KiB that were read back from the encrypted disk and compared; in the mode
    /// `timer`, sectors of 4 KiB and messages of up to 4 KiB that the task compared.
    #[schemars(extend("x-role" = "figure"))]
    pub disk: u64,
    /// Pieces that differed from what was written.
    #[schemars(extend("x-role" = "figure", "x-heading" = "disk wrong"))]
    pub disk_wrong: u64,
    /// Number of times a program checked the values that it kept in vector registers.
    #[schemars(extend("x-role" = "figure"))]
    pub registers: u64,
    /// Number of checks of vector registers that found changed values.
    #[schemars(extend("x-role" = "figure", "x-heading" = "registers wrong"))]
    pub registers_wrong: u64,
    /// Kiln's drivers that were registered and had passed every self-test.
    #[schemars(extend("x-role" = "figure"))]
    pub drivers: u64,
    /// Number of times the module was loaded, opened a nested section and was unloaded.
    #[schemars(extend("x-role" = "figure"))]
    pub cycles: u64,
    /// Duration of the load according to the guest's clock, including the wait for the last
    /// packets.
    #[schemars(extend("unit" = "ms", "x-role" = "figure", "x-heading" = "load ms"))]
    pub load_ms: u64,
}

#[derive(Debug)]
pub struct Outcome {
    pub rows: Vec<Row>,
    /// Descriptions of failed expectations.
    pub findings: Vec<String>,
    /// Results of the controls, and notes that help the reader interpret the rows.
    pub notes: Vec<String>,
    /// Whether Ctrl-C ended the boot. In that case, the rows cover only the loads that had
    /// finished.
    pub interrupted: bool,
}
