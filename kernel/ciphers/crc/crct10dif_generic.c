// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* CRC-16/T10-DIF in general-purpose registers; eight tables process eight bytes per step. */
#include "crc.h"

#define CRC_FIRST 0x8000u
#define CRC_STEP(c) (((c) << 1 ^ ((c) & 0x8000 ? 0x8bb7u : 0)) & 0xffff)
/* The CRC of a byte in which only bit i is set; bit i represents x^(16 + i). */
#define CRC_OF_BIT(k, i) c_##k##i

#include "table.h"

static const u16 table[8][256] __aligned(64) = CRC_TABLES;

u32 crct10dif_byte(u32 crc, u8 byte)
{
	return (crc << 8 & 0xffff) ^ table[0][crc >> 8 ^ byte];
}

static u32 add_bytes(u32 crc, const u8 *data, size_t len)
{
	for (; len >= 8; len -= 8, data += 8) {
		const u64 w = get_le64(data) ^ crc >> 8 ^ (crc & 255) << 8;

		crc = table[7][w & 255] ^ table[6][w >> 8 & 255] ^
		      table[5][w >> 16 & 255] ^ table[4][w >> 24 & 255] ^
		      table[3][w >> 32 & 255] ^ table[2][w >> 40 & 255] ^
		      table[1][w >> 48 & 255] ^ table[0][w >> 56];
	}
	for (; len; len--, data++)
		crc = crct10dif_byte(crc, *data);
	return crc;
}

CRC_ENTRIES(crct10dif, generic, add_bytes)
