// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-XTS over the bit-sliced AES, in constant time without vector registers.
 *
 * 32 blocks per call: bit-slicing the round keys, once per call, takes a third of the
 * time of four blocks, and a kernel stack has 512 bytes to spare.
 */
#include "xts_scalar.h"

XTS_SCALAR(fixed_time, aes_encrypt_fixed_time, aes_decrypt_fixed_time, 32)
