/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Cyclic redundancy checks: CRC-32C (RFC 3720, 12.1; least significant bit first, initial value and
 * final XOR all ones) and CRC-16/T10-DIF (SBC-3, 4.22.4; most significant bit first, begins with
 * zero). The digest is the number, little-endian, as Linux's shashes leave it.
 *
 * crc.c			the table
 * table.h			tables for the general registers, made by the compiler
 * crc32c_TIER.c, crct10dif_TIER.c	a piece of a message
 * crc32c_stream.h		CRC-32C by its instruction, for the SIMD tiers
 * crct10dif_simd.h		the template of the SIMD tiers of CRC-16/T10-DIF
 * fold.h				folding of vectors
 */
#ifndef KILN_CRC_H
#define KILN_CRC_H

#include <kiln/types.h>
#include <kiln/unaligned.h>

/* Returns the CRC after @len more bytes. Neither @crc nor the result is inverted. */
typedef u32 crc_t(u32 crc, const u8 *data, size_t len);

crc_t crc32c_generic, crc32c_sse42, crc32c_pclmul, crc32c_avx512;
crc_t crct10dif_generic, crct10dif_pclmul, crct10dif_avx512;

/* Adds one byte. The other tiers use it, too. */
u32 crct10dif_byte(u32 crc, u8 byte);

#endif
