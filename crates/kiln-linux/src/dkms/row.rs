//! The results of `kiln linux dkms`: rows, findings and notes.

use schemars::JsonSchema;
use serde::Serialize;

/// Algorithm whose known answer is changed as a control.
pub(super) const PLANTED: &str = "rfc4106(gcm(aes))";

/// Mode where a timer's softirqs interrupt sections without a network.
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
    /// `gcm`: AES-GCM; `cbc`: AES-CBC with HMAC-SHA-256; `gcm, chacha`: AES-GCM in three of four
    /// messages, and ChaCha20-Poly1305.
    #[schemars(extend("x-role" = "key"))]
    pub cipher: &'static str,
    /// Packets that the sender handed to the kernel; in the mode `timer`, messages of softirqs.
    #[schemars(extend("x-role" = "main"))]
    pub sent: u64,
    /// Packets that were sent but not received.
    #[schemars(extend("x-role" = "main"))]
    pub lost: u64,
    /// Packets that arrived after a packet that was sent later.
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
    /// nested sections may interrupt the same one.
    #[schemars(extend("x-role" = "figure"))]
    pub interrupted: u64,
    /// Different instructions at which these sections were interrupted.
    #[schemars(extend("x-role" = "figure"))]
    pub addresses: u64,
    /// Pieces of 64 KiB that were read back from the encrypted disk and compared; in the mode
    /// `timer`, sectors of 4 KiB and messages of up to 4 KiB that the task compared.
    #[schemars(extend("x-role" = "figure"))]
    pub disk: u64,
    /// Pieces that differed from what was written.
    #[schemars(extend("x-role" = "figure", "x-heading" = "disk wrong"))]
    pub disk_wrong: u64,
    /// Number of times that a program checked the values that it kept in vector registers.
    #[schemars(extend("x-role" = "figure"))]
    pub registers: u64,
    /// Number of checks of vector registers that found changed values.
    #[schemars(extend("x-role" = "figure", "x-heading" = "registers wrong"))]
    pub registers_wrong: u64,
    /// Kiln's drivers that were registered and had passed every self-test.
    #[schemars(extend("x-role" = "figure"))]
    pub drivers: u64,
    /// Number of times that the module was loaded, opened a nested section and was unloaded.
    #[schemars(extend("x-role" = "figure"))]
    pub cycles: u64,
    /// Duration of the load by the guest's clock, including the wait for the last packets.
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
    /// Whether Ctrl-C ended the boot. The rows are then from the loads that had ended.
    pub interrupted: bool,
}
