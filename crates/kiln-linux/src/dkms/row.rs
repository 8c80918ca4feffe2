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
    /// How the guest's CPU is virtualized: `kvm` (by hardware) or `tcg` (by software emulation).
    #[schemars(extend("x-role" = "key"))]
    pub accel: String,
    /// Which module is under test. `without`: none, only Linux's own drivers. `with`: Kiln's
    /// module, loaded with `prefer=1`. `unsaved`: the control, a module that saves neither the
    /// registers of interrupted sections nor the program's registers. `cycles`: Kiln's module,
    /// which is repeatedly loaded, used and unloaded.
    #[schemars(extend("x-role" = "key"))]
    pub module: &'static str,
    /// Where messages are encrypted and decrypted. `transport`: a process encrypts packets, and a
    /// softirq decrypts them. `tunnel`: softirqs do both. `timer`: no network is used; a timer's
    /// softirqs process packet-sized messages and interrupt a task that processes sectors and
    /// messages.
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// Cipher that protects the packets or messages. `gcm`: AES-GCM. `cbc`: AES-CBC with
    /// HMAC-SHA-256. `gcm, chacha`: in softirqs, AES-GCM for about three out of every four messages
    /// and ChaCha20-Poly1305 for the rest.
    #[schemars(extend("x-role" = "key"))]
    pub cipher: &'static str,
    /// Number of packets that the sender handed to the kernel. In the mode `timer`, the number of
    /// messages that softirqs processed.
    #[schemars(extend("x-role" = "main"))]
    pub sent: u64,
    /// Number of packets that were sent but not received.
    #[schemars(extend("x-role" = "main"))]
    pub lost: u64,
    /// Number of packets that were overtaken by a packet sent later.
    #[schemars(extend("x-role" = "figure"))]
    pub reordered: u64,
    /// Number of packets or messages with wrong bytes.
    #[schemars(extend("x-role" = "main"))]
    pub wrong: u64,
    /// Number of requests that were deferred to cryptd.
    #[schemars(extend("x-role" = "main"))]
    pub cryptd: u64,
    /// Number of nested FPU sections. Kiln's drivers opened them in softirqs that had interrupted
    /// another FPU section.
    #[schemars(extend("x-role" = "figure", "x-heading" = "nested saves"))]
    pub nested_saves: u64,
    /// Number of times that a softirq interrupted an FPU section. Each of these softirqs may open
    /// several nested sections. Counted only in the mode `timer`.
    #[schemars(extend("x-role" = "figure"))]
    pub interrupted: u64,
    /// Number of distinct instructions at which softirqs interrupted FPU sections. Counted only in
    /// the mode `timer`.
    #[schemars(extend("x-role" = "figure"))]
    pub addresses: u64,
    /// Number of 64-KiB pieces that were read back from the encrypted disk and compared. In the
    /// mode `timer`, the number of 4-KiB sectors and of messages of up to 4 KiB whose results the
    /// task compared.
    #[schemars(extend("x-role" = "figure"))]
    pub disk: u64,
    /// Number of pieces, sectors and messages counted in `disk` that were wrong.
    #[schemars(extend("x-role" = "figure", "x-heading" = "disk wrong"))]
    pub disk_wrong: u64,
    /// Number of times that a user-space program checked the values that it keeps in vector
    /// registers.
    #[schemars(extend("x-role" = "figure"))]
    pub registers: u64,
    /// Number of checks counted in `registers` that found changed values.
    #[schemars(extend("x-role" = "figure", "x-heading" = "registers wrong"))]
    pub registers_wrong: u64,
    /// Number of Kiln's drivers that were registered and had passed Linux's self-tests. Counted
    /// only if `module` is `with`.
    #[schemars(extend("x-role" = "figure"))]
    pub drivers: u64,
    /// Number of times that the module was loaded, opened a nested section and was unloaded.
    /// Counted only if `module` is `cycles`.
    #[schemars(extend("x-role" = "figure"))]
    pub cycles: u64,
    /// Duration of the test load, measured by the guest's clock. Includes the wait for the last
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
