//! The rows that `kiln ipsec` outputs. Each row contains the results of one policy under one load.

use schemars::JsonSchema;
use serde::Serialize;

use crate::fpu::Row;

/// One FPU policy under a load of IPsec packets.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(
    rename = "fpu-esp",
    title = "IPsec under each FPU policy",
    extend(
        "x-question" = "Is nested use of the FPU safe and worth it? At which packet rate does IPsec start to lose packets if softirqs fall back to cryptd?",
        "x-commands" = ["ipsec"],
        "x-old-commands" = ["fpu --load esp"],
        "x-view" = {
            "how": "The pictures show how many packets per second are delivered, depending on how many are offered. Where a policy's \
                    line falls below the diagonal (all packets delivered), packets are lost. If the load has phases, more pictures show, \
                    over time, the payload received and how many requests wait for cryptd.",
            "only": ["!control"],
            "each": ["load"],
            "name": ["policy", "fallback!=none|own|scalar"],
            "pictures": [
                {
                    "form": "lines",
                    "title": "packets delivered",
                    "x": "offered_pps",
                    "y": "delivered_pps",
                    "along": "packets/s offered",
                    "upwards": "packets/s delivered"
                },
                {
                    "form": "course",
                    "title": "payload received",
                    "prefix": "t_mb_per_s",
                    "step": "t_ms",
                    "shade": ["t_high_from_ms", "t_high_to_ms", "high load"],
                    "upwards": "MB/s"
                },
                {
                    "form": "course",
                    "title": "waiting for cryptd",
                    "prefix": "t_queued",
                    "step": "t_ms",
                    "shade": ["t_high_from_ms", "t_high_to_ms", "high load"],
                    "upwards": "requests"
                },
                {
                    "form": "bars",
                    "title": "payload of the high phase",
                    "value": "esp_mb_per_s",
                    "unit": "MB/s"
                }
            ],
            "check": {"only": ["policy!=none"], "fail": ["corrupted", "user_corrupted"]}
        }
    )
)]
#[serde(transparent)]
pub(super) struct EspRow(pub Row);
