// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* CRC-32C in general-purpose registers; eight tables process eight bytes per step. */
#include "crc.h"

#define CRC_FIRST 1u
#define CRC_STEP(c) ((c) & 1 ? (unsigned)(c) >> 1 ^ 0x82f63b78u : (unsigned)(c) >> 1)
/*
 * The CRC of a byte in which only bit i is set. Bit i reaches the lowest position after i of the
 * byte's eight steps, so 8 - i steps remain.
 */
#define CRC_OF_BIT(k, i) CRC_OF_BIT_##i(k)
#define CRC_OF_BIT_0(k) c_##k##7
#define CRC_OF_BIT_1(k) c_##k##6
#define CRC_OF_BIT_2(k) c_##k##5
#define CRC_OF_BIT_3(k) c_##k##4
#define CRC_OF_BIT_4(k) c_##k##3
#define CRC_OF_BIT_5(k) c_##k##2
#define CRC_OF_BIT_6(k) c_##k##1
#define CRC_OF_BIT_7(k) c_##k##0

#include "table.h"

static const u32 table[8][256] __aligned(64) = CRC_TABLES;

static u32 add_bytes(u32 crc, const u8 *data, size_t len)
{
	for (; len >= 8; len -= 8, data += 8) {
		const u64 w = get_le64(data) ^ crc;

		crc = table[7][w & 255] ^ table[6][w >> 8 & 255] ^
		      table[5][w >> 16 & 255] ^ table[4][w >> 24 & 255] ^
		      table[3][w >> 32 & 255] ^ table[2][w >> 40 & 255] ^
		      table[1][w >> 48 & 255] ^ table[0][w >> 56];
	}
	for (; len; len--, data++)
		crc = crc >> 8 ^ table[0][(crc ^ *data) & 255];
	return crc;
}

CRC_ENTRIES(crc32c, generic, add_bytes)
