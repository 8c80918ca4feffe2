//! Answers question 5: does the virtio-crypto driver poll its control queue?

use super::answer::Answer;
use super::files::{RELEASE, SYMBOLS, VIRTIO};
use super::machine::{Device, Machine};
use super::row::Basis;

/// The function in the driver that handles interrupts from the control queue. It was added to
/// mainline in 5.19, by the commit that replaced polling.
const CALLBACK: &str = "virtcrypto_ctrlq_callback";
/// A function that exists in every version of the driver. If it is found, the driver's symbols can
/// be read.
const PROBE: &str = "virtcrypto_probe";
const WAITS: (u32, u32) = (5, 19);

/// Answers question 5: whether the virtio-crypto driver polls its control queue.
pub(super) fn judge_queue(machine: &Machine) -> Answer {
    let devices = match &machine.devices {
        Ok(devices) => devices,
        Err(why) => {
            return Answer::unknown(format!(
                "whether there is a virtio-crypto device cannot be told: /sys/bus/virtio {}",
                why.words()
            ))
        }
    };
    let crypto: Vec<&Device> = devices.iter().filter(|d| d.is_crypto).collect();
    let Some(device) = crypto.first() else {
        return Answer::has_not(Basis::Files, "this machine has no virtio-crypto device").evidence(
            [match devices.len() {
                0 => "sys/bus/virtio: no devices".to_owned(),
                n => format!(
                    "{}: {n} devices, none of them virtio-crypto",
                    VIRTIO.pattern
                ),
            }],
        );
    };
    let read = format!(
        "sys/bus/virtio/devices/{}: virtio-crypto, {}",
        device.name,
        device
            .driver
            .as_deref()
            .map_or("without a driver".into(), |d| format!("driver {d}"))
    );
    let symbol = |name| machine.has_symbol(name);
    let release = machine.release.as_deref().unwrap_or("unknown");
    match (symbol(PROBE), symbol(CALLBACK)) {
        (_, Some(true)) => Answer::has_not(
            Basis::Files,
            "the virtio-crypto driver waits for an interrupt when it has sent a control request; it does not poll",
        )
        .evidence([read, format!("{}: {CALLBACK}", SYMBOLS.pattern)]),
        (Some(true), Some(false)) if machine.version.is_some_and(|v| v < WAITS) => Answer::has(
            Basis::Files,
            "the virtio-crypto driver polls the control queue with its lock held: one session is created or closed at a time",
        )
        .evidence([
            read,
            format!("{}: {PROBE}, but no {CALLBACK}", SYMBOLS.pattern),
            format!("{}: {release}", RELEASE.pattern),
        ])
        .advice("run a kernel from 5.19 on, whose driver waits; 'kiln ctrlq' compares polling and waiting"),
        _ => Answer::unknown(format!(
            "no symbol shows whether the virtio-crypto driver polls its control queue; by the version number alone, \
             mainline's polls before 5.19, and this is {}",
            machine.kernel()
        ))
        .evidence([read])
        .evidence(machine.config.as_ref().ok().map(|c| format!("{}: {}", c.path, c.words("CRYPTO_DEV_VIRTIO"))))
        .would_tell("load the driver, 'modprobe virtio_crypto', and run 'kiln here' again"),
    }
}
