/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tables for processing eight bytes at once, as constant expressions. Entry b of table k is the CRC
 * of byte b followed by k zero bytes. It is linear in the bits of b, so the eight entries with a
 * single bit determine all others. These are computed from CRC_FIRST with CRC_STEP(c), which
 * appends one zero bit. The including file defines both macros.
 */

#define CRC_EIGHT(to, before)                                           \
	to##0 = CRC_STEP(before), to##1 = CRC_STEP(to##0),                    \
	to##2 = CRC_STEP(to##1), to##3 = CRC_STEP(to##2),                     \
	to##4 = CRC_STEP(to##3), to##5 = CRC_STEP(to##4),                     \
	to##6 = CRC_STEP(to##5), to##7 = CRC_STEP(to##6)

/* c_kn is CRC_FIRST after 8k + n + 1 steps. */
enum {
	CRC_EIGHT(c_0, CRC_FIRST),
	CRC_EIGHT(c_1, c_07),
	CRC_EIGHT(c_2, c_17),
	CRC_EIGHT(c_3, c_27),
	CRC_EIGHT(c_4, c_37),
	CRC_EIGHT(c_5, c_47),
	CRC_EIGHT(c_6, c_57),
	CRC_EIGHT(c_7, c_67),
};

#define CRC_BIT(b, i, v) ((b) >> (i) & 1 ? (v) : 0)
#define CRC_1(k, b)                                                           \
	CRC_BIT(b, 0, CRC_OF_BIT(k, 0)) ^ CRC_BIT(b, 1, CRC_OF_BIT(k, 1)) ^   \
	CRC_BIT(b, 2, CRC_OF_BIT(k, 2)) ^ CRC_BIT(b, 3, CRC_OF_BIT(k, 3)) ^   \
	CRC_BIT(b, 4, CRC_OF_BIT(k, 4)) ^ CRC_BIT(b, 5, CRC_OF_BIT(k, 5)) ^   \
	CRC_BIT(b, 6, CRC_OF_BIT(k, 6)) ^ CRC_BIT(b, 7, CRC_OF_BIT(k, 7))
#define CRC_4(k, b) CRC_1(k, b), CRC_1(k, b + 1), CRC_1(k, b + 2), CRC_1(k, b + 3)
#define CRC_16(k, b) CRC_4(k, b), CRC_4(k, b + 4), CRC_4(k, b + 8), CRC_4(k, b + 12)
#define CRC_64(k, b) CRC_16(k, b), CRC_16(k, b + 16), CRC_16(k, b + 32), CRC_16(k, b + 48)
#define CRC_TABLE(k) { CRC_64(k, 0), CRC_64(k, 64), CRC_64(k, 128), CRC_64(k, 192) }
#define CRC_TABLES {                                                          \
	CRC_TABLE(0), CRC_TABLE(1), CRC_TABLE(2), CRC_TABLE(3),               \
	CRC_TABLE(4), CRC_TABLE(5), CRC_TABLE(6), CRC_TABLE(7),               \
}
