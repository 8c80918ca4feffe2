// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Checksum and RAID parity functions that the tree's library exports. A checksum starts from 0
 * unless the crypto API defines another initial value. The result is stored in little-endian order.
 */
#include <linux/crc-ccitt.h>
#include <linux/crc-itu-t.h>
#include <linux/crc-t10dif.h>
#include <linux/crc16.h>
#include <linux/crc32.h>
#include <linux/crc32c.h>
#include <linux/crc4.h>
#include <linux/crc64.h>
#include <linux/crc7.h>
#include <linux/crc8.h>

#include "kiln/function.h"

/*
 * Defines a checksum function's two wrappers: one returns the checksum, the other stores it. @sum is
 * an expression that uses src and len.
 */
#define CHECKSUM_AS(name, bits, sum)				\
	WEAK(name);						\
	static u64 kiln_sum_##name(const u8 *src, size_t len)	\
	{							\
		return (u##bits)(sum);				\
	}							\
	WRAPPER(name)						\
	{							\
		put_unaligned_le##bits(sum, dst);		\
		return 0;					\
	}
#define CHECKSUM(name, bits) CHECKSUM_AS(name, bits, name(0, src, len))

CHECKSUM(crc16, 16)
CHECKSUM(crc_ccitt, 16)
CHECKSUM(crc_itu_t, 16)
CHECKSUM(crc_t10dif_update, 16)
CHECKSUM(crc32_le, 32)
CHECKSUM(crc32_be, 32)
CHECKSUM(crc64_be, 64)

WEAK(crc4);
WRAPPER(crc4)
{
	*dst = crc4(0, get_unaligned_le32(src), 32);
	return 0;
}

WEAK(crc7_be);
WRAPPER(crc7_be)
{
	*dst = crc7_be(0, src, len);
	return 0;
}

WEAK(crc8);
WEAK(crc8_populate_msb);
PREPARE(crc8)
{
	crc8_populate_msb(key, 7);
	return 0;
}

WRAPPER(crc8)
{
	*dst = crc8(key, src, len, 0);
	return 0;
}

/*
 * The wrapper inverts the initial CRC and the result, as the crypto API does. Before 6.14 crc32c()
 * called the crypto API, so __crc32c_le() is used instead.
 */
#if SINCE(6, 14)
CHECKSUM_AS(crc32c, 32, ~crc32c(~0, src, len))
CHECKSUM(crc64_nvme, 64)
#else
CHECKSUM_AS(__crc32c_le, 32, ~__crc32c_le(~0, src, len))
CHECKSUM(crc64_rocksoft_generic, 64)
#endif

/* The message consists of four disks of at least 512 bytes each. */
#if SINCE(7, 2)
#define KILN_RAID
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>
WEAK(raid6_gen_syndrome);
WEAK(raid6_xor_syndrome);
WEAK(raid6_can_xor_syndrome);
WEAK(raid6_recov_2data);
WEAK(raid6_recov_datap);
WEAK(xor_gen);

/* Declares an array of pointers to the data disks in order, followed by the two parities. */
#define DISKS(p, q)							\
	const size_t size = len / 4;					\
	void *disks[] = { (u8 *)src, (u8 *)src + size, (u8 *)src + 2 * size,	\
			  (u8 *)src + 3 * size, p, q }

WRAPPER(raid6_gen_syndrome)
{
	DISKS(dst, dst + size);

	raid6_gen_syndrome(6, size, disks);
	return 0;
}

/* The function updates existing parities. Start with those of zeroed disks, which are zeros. */
WRAPPER(raid6_xor_syndrome)
{
	DISKS(dst, dst + size);

	if (!raid6_can_xor_syndrome())
		return -EOPNOTSUPP;
	memset(dst, 0, 2 * size);
	raid6_xor_syndrome(6, 0, 3, size, disks);
	return 0;
}

/*
 * The message consists of the third disk, the fourth disk and both parities. The function recovers
 * the first two disks.
 */
WRAPPER(raid6_recov_2data)
{
	const size_t size = len / 4;
	u8 *const in = (u8 *)src;
	void *disks[] = { dst, dst + size, in, in + size, in + 2 * size, in + 3 * size };

	raid6_recov_2data(6, size, 0, 1, disks);
	return 0;
}

/* The message consists of disks 2 to 4 and Q. The function recovers the first disk and P. */
WRAPPER(raid6_recov_datap)
{
	const size_t size = len / 4;
	u8 *const in = (u8 *)src;
	void *disks[] = { dst, in, in + size, in + 2 * size, dst + size, in + 3 * size };

	raid6_recov_datap(6, size, 0, disks);
	return 0;
}

/* The function XORs into its destination, so the wrapper clears it first, as md_raid does. */
WRAPPER(xor_gen)
{
	DISKS(NULL, NULL);

	memset(dst, 0, size);
	xor_gen(dst, disks, 4, size);
	return 0;
}

/*
 * Maximum message length. Both recovery functions read a page of zeros in place of the lost disks,
 * so a disk must not be larger than a page.
 */
#define RECOVERED (4 * 4096)

#define PARITY(way)						\
	.alg = way, .op = "digest", .kind = KILN_LIBRARY_PARITY,	\
	BLOCKS(4 * 512), .flags = KILN_LIBRARY_TASK
#endif

/* Begins the table entry of a function whose wrappers are defined with CHECKSUM_AS(). */
#define WITH_SUM(called) FUNCTION(called), .checksum = kiln_sum_##called

const struct kiln_function kiln_checksums[] = {
	{ FUNCTION(crc4), DIGEST("crc4", 1), .least = 4, .most = 4 },
	{ FUNCTION(crc7_be), DIGEST("crc7-be", 1) },
	{ FUNCTION(crc8), DIGEST("crc8", 1), PREPARED(crc8, u8[CRC8_TABLE_SIZE]) },
	{ WITH_SUM(crc16), DIGEST("crc16", 2) },
	{ WITH_SUM(crc_ccitt), DIGEST("crc-ccitt", 2) },
	{ WITH_SUM(crc_itu_t), DIGEST("crc-itu-t", 2) },
	{ WITH_SUM(crc_t10dif_update), DIGEST("crct10dif", 2) },
	{ WITH_SUM(crc32_le), DIGEST("crc32", 4) },
	{ WITH_SUM(crc32_be), DIGEST("crc32-be", 4) },
	{ WITH_SUM(crc64_be), DIGEST("crc64-be", 8) },
#if SINCE(6, 14)
	{ WITH_SUM(crc32c), DIGEST("crc32c", 4) },
	{ WITH_SUM(crc64_nvme), DIGEST("crc64-nvme", 8) },
#else
	{ WITH_SUM(__crc32c_le), DIGEST("crc32c", 4) },
	{ WITH_SUM(crc64_rocksoft_generic), DIGEST("crc64-nvme", 8) },
#endif
#ifdef KILN_RAID
	{ FUNCTION(raid6_gen_syndrome), PARITY("raid6") },
	{ FUNCTION(raid6_xor_syndrome), PARITY("raid6") },
	{ FUNCTION(raid6_recov_2data), PARITY("raid6-recover-2data"), .most = RECOVERED },
	{ FUNCTION(raid6_recov_datap), PARITY("raid6-recover-datap"), .most = RECOVERED },
	{ FUNCTION(xor_gen), PARITY("xor") },
#endif
};
const size_t kiln_checksum_count = ARRAY_SIZE(kiln_checksums);
